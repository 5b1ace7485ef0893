//! What a member says of its call, in bytes of fixed length.

use crate::collective::Work;
use crate::topology::neighborhood::Blocks;
use weft_coll::{Block, Call, InterCall, Root};
use weft_datatype::{Datatype, Memory};
use weft_engine::{Arguments, Reduction};
use weft_types::abi;

/// Longest name that travels.
const NAME: usize = 32;

/// A short text in a fixed place; longer ones are cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Name([u8; NAME]);

impl Name {
    fn of(text: &str) -> Name {
        let mut name = Name::default();
        let length = text.len().min(NAME);
        name.0[..length].copy_from_slice(&text.as_bytes()[..length]);
        name
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).trim_end_matches('\0').to_owned()
    }
}

/// Writes words and names.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn word(&mut self, word: u64) {
        self.0.extend_from_slice(&word.to_ne_bytes());
    }

    fn name(&mut self, name: &Name) {
        self.0.extend_from_slice(&name.0);
    }
}

/// Reads them back; what is missing reads as zero.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut all = [0; N];
        let length = N.min(self.0.len());
        let (now, rest) = self.0.split_at(length);
        all[..length].copy_from_slice(now);
        self.0 = rest;
        all
    }

    pub(super) fn word(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    fn name(&mut self) -> Name {
        Name(self.take())
    }
}

/// An amount of data: bytes, and the fingerprint of the type signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) bytes: u64,
    pub(super) count: u64,
    /// [`Amount::ANY`] for `MPI_PACKED`, which goes with everything.
    pub(super) fingerprint: u64,
    pub(super) datatype: Name,
}

impl Amount {
    /// Bytes of an optional amount on its way.
    pub(super) const BYTES: usize = 4 * 8 + NAME;

    /// The fingerprint that goes with every other.
    pub(super) const ANY: u64 = u64::MAX;

    fn new(datatype: &Datatype, bytes: u64) -> Amount {
        let count = bytes.checked_div(datatype.element_bytes() as u64).unwrap_or(0);
        let packed =
            datatype.as_predefined().is_some_and(|predefined| predefined.handle() == abi::MPI_PACKED);
        let fingerprint = if packed { Amount::ANY } else { datatype.signature().fingerprint(count) };
        let name = match datatype.default_name() {
            "" => "a derived datatype",
            name => name,
        };
        Amount { bytes, count, fingerprint, datatype: Name::of(name) }
    }

    fn of(memory: &Memory, bytes: u64) -> Amount {
        Amount::new(memory.datatype(), bytes)
    }

    /// Whether one can be sent where the other is received.
    pub(super) fn fits(&self, other: &Amount) -> bool {
        let any = self.fingerprint == Amount::ANY || other.fingerprint == Amount::ANY;
        self.bytes == other.bytes && (any || self.fingerprint == other.fingerprint)
    }

    pub(super) fn text(&self) -> String {
        format!("{} x {} ({} bytes)", self.count, self.datatype.text(), self.bytes)
    }

    pub(super) fn write(amount: Option<&Amount>, to: &mut Writer) {
        let amount_or_zero = amount.copied().unwrap_or_default();
        to.word(u64::from(amount.is_some()));
        to.word(amount_or_zero.bytes);
        to.word(amount_or_zero.count);
        to.word(amount_or_zero.fingerprint);
        to.name(&amount_or_zero.datatype);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Amount> {
        let present = from.word() == 1;
        let (bytes, count, fingerprint) = (from.word(), from.word(), from.word());
        let datatype = from.name();
        present.then_some(Amount { bytes, count, fingerprint, datatype })
    }

    pub(super) fn parse_all(bytes: &[u8]) -> Vec<Option<Amount>> {
        bytes.chunks_exact(Amount::BYTES).map(|one| Amount::read(&mut Reader(one))).collect()
    }
}

/// What must be the same at all members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) procedure: Name,
    /// -1 when there is none, or it differs by right.
    pub(super) root: i64,
    /// The operation of a reduction; empty without one.
    pub(super) operation: Name,
    /// Of the operation.
    pub(super) commutative: u64,
    /// A hash of the counts of `MPI_Reduce_scatter`.
    pub(super) counts: u64,
    /// What everybody gives or takes; the second one of operations where everybody does both.
    pub(super) amounts: [Option<Amount>; 2],
}

impl Record {
    pub(super) const BYTES: usize = 2 * NAME + 3 * 8 + 2 * Amount::BYTES;

    pub(super) fn of(
        procedure: &str,
        work: &Work<'_>,
        arguments: &Arguments,
        reduction: Option<&Reduction>,
        members: &Members,
    ) -> Record {
        let mut record = Record { procedure: Name::of(procedure), root: -1, ..Record::default() };
        if let Some(reduction) = reduction {
            record.operation = Name::of(reduction.name);
        }
        let Work::Collective(call) = work else { return record };
        let Arguments { send, recv, .. } = arguments;
        let both = |bytes: u64, in_place: bool| {
            [Some(Amount::of(recv, bytes)), (!in_place).then(|| Amount::of(send, bytes))]
        };
        match **call {
            Call::Bcast { root, bytes } => {
                (record.root, record.amounts[0]) = (i64::from(root), Some(Amount::of(recv, bytes)));
            }
            Call::Gather { root, bytes, .. } => {
                // The root knows its receive argument only.
                let known = if members.own == root { recv } else { send };
                (record.root, record.amounts[0]) = (i64::from(root), Some(Amount::of(known, bytes)));
            }
            Call::Scatter { root, bytes, .. } => {
                let known = if members.own == root { send } else { recv };
                (record.root, record.amounts[0]) = (i64::from(root), Some(Amount::of(known, bytes)));
            }
            Call::Gatherv { root, .. } | Call::Scatterv { root, .. } => record.root = i64::from(root),
            Call::Allgather { bytes, in_place } | Call::Alltoall { bytes, in_place } => {
                record.amounts = both(bytes, in_place);
            }
            Call::Reduce { vector, .. }
            | Call::Allreduce { vector, .. }
            | Call::ReduceScatter { vector, .. }
            | Call::Scan { vector, .. }
            | Call::Exscan { vector, .. } => {
                record.amounts[0] =
                    reduction.map(|reduction| Amount::new(&reduction.datatype, vector.bytes()));
                record.commutative = u64::from(vector.commutative);
            }
            Call::Barrier | Call::Allgatherv { .. } | Call::Alltoallv { .. } | Call::Alltoallw { .. } => {}
        }
        match **call {
            Call::Reduce { root, .. } => record.root = i64::from(root),
            Call::ReduceScatter { counts, .. } => {
                let mix =
                    |all: u64, &count: &u64| (all ^ count).wrapping_mul(0x100_0000_01b3).rotate_left(29);
                record.counts = counts.iter().fold(0xcbf2_9ce4_8422_2325, mix);
            }
            _ => {}
        }
        record
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.name(&self.procedure);
        to.name(&self.operation);
        to.word(self.root as u64);
        to.word(self.commutative);
        to.word(self.counts);
        self.amounts.iter().for_each(|amount| Amount::write(amount.as_ref(), &mut to));
        to.0
    }

    pub(super) fn parse_all(bytes: &[u8]) -> Vec<Record> {
        let one = |bytes: &[u8]| {
            let mut from = Reader(bytes);
            Record {
                procedure: from.name(),
                operation: from.name(),
                root: from.word() as i64,
                commutative: from.word(),
                counts: from.word(),
                amounts: [Amount::read(&mut from), Amount::read(&mut from)],
            }
        };
        bytes.chunks_exact(Record::BYTES).map(one).collect()
    }
}

/// What this member gives each other one, and what it expects of each; by the places of a call's arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pairs {
    given: Vec<Option<Amount>>,
    pub(super) expected: Vec<Option<Amount>>,
}

impl Pairs {
    /// `None` for calls in which no pair has an amount of its own.
    pub(super) fn of(
        work: &Work<'_>,
        arguments: &Arguments,
        reduction: Option<&Reduction>,
        members: &Members,
    ) -> Option<Pairs> {
        match work {
            Work::Collective(call) => of_call(call, arguments, members),
            Work::Inter(call) => Some(of_inter(call, arguments, reduction, members)),
            Work::Neighborhood(send, recv) => {
                let side = |blocks: &Blocks<'_>, whole: &Memory, own: &[Memory], places: u32| match blocks {
                    Blocks::One(bytes) | Blocks::Even(bytes) => same(Amount::of(whole, *bytes), places),
                    Blocks::Placed(blocks) => placed(whole, blocks),
                    Blocks::PerNeighbor(bytes) => typed(own, bytes),
                };
                let given = side(send, &arguments.send, &arguments.send_peers, members.destinations);
                let expected = side(recv, &arguments.recv, &arguments.recv_peers, members.sources);
                Some(Pairs { given, expected })
            }
        }
    }

    /// What is given, on its way.
    pub(super) fn given(&self) -> Vec<u8> {
        let mut to = Writer::default();
        self.given.iter().for_each(|amount| Amount::write(amount.as_ref(), &mut to));
        to.0
    }
}

/// How many a member exchanges amounts with, and its own place among them on an intracommunicator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Members {
    pub(super) sources: u32,
    pub(super) destinations: u32,
    pub(super) own: u32,
}

fn same(amount: Amount, places: u32) -> Vec<Option<Amount>> {
    vec![Some(amount); places as usize]
}

fn nothing(places: u32) -> Vec<Option<Amount>> {
    vec![None; places as usize]
}

fn at(place: u32, amount: Amount, places: u32) -> Vec<Option<Amount>> {
    let mut all = nothing(places);
    all[place as usize] = Some(amount);
    all
}

fn placed(memory: &Memory, blocks: &[Block]) -> Vec<Option<Amount>> {
    blocks.iter().map(|block| Some(Amount::of(memory, block.bytes))).collect()
}

fn typed(memories: &[Memory], bytes: &[u64]) -> Vec<Option<Amount>> {
    memories.iter().zip(bytes).map(|(memory, &bytes)| Some(Amount::of(memory, bytes))).collect()
}

fn of_call(call: &Call<'_>, arguments: &Arguments, members: &Members) -> Option<Pairs> {
    let Arguments { send, recv, send_peers, recv_peers } = arguments;
    let (size, rank) = (members.sources, members.own);
    // In place the own block neither leaves nor comes.
    let without_own = |mut all: Vec<Option<Amount>>, in_place: bool| {
        if in_place {
            all[rank as usize] = None;
        }
        all
    };
    Some(match *call {
        Call::Gatherv { root, bytes, blocks, in_place } if rank == root => Pairs {
            given: match in_place || blocks.is_empty() {
                true => nothing(size),
                false => at(root, Amount::of(send, blocks[rank as usize].bytes.max(bytes)), size),
            },
            expected: without_own(placed(recv, blocks), in_place),
        },
        Call::Gatherv { root, bytes, .. } => {
            Pairs { given: at(root, Amount::of(send, bytes), size), expected: nothing(size) }
        }
        Call::Scatterv { root, bytes, blocks, in_place } if rank == root => Pairs {
            given: without_own(placed(send, blocks), in_place),
            expected: match in_place {
                true => nothing(size),
                false => at(root, Amount::of(recv, bytes), size),
            },
        },
        Call::Scatterv { root, bytes, .. } => {
            Pairs { given: nothing(size), expected: at(root, Amount::of(recv, bytes), size) }
        }
        Call::Allgatherv { blocks, in_place } => {
            let own = if in_place { recv } else { send };
            let given = Amount::of(own, blocks[rank as usize].bytes);
            Pairs { given: same(given, size), expected: placed(recv, blocks) }
        }
        Call::Alltoallv { send: outgoing, recv: incoming, in_place } => {
            let expected = placed(recv, incoming);
            Pairs { given: if in_place { expected.clone() } else { placed(send, outgoing) }, expected }
        }
        Call::Alltoallw { send: outgoing, recv: incoming, in_place } => {
            let expected = typed(recv_peers, incoming);
            Pairs { given: if in_place { expected.clone() } else { typed(send_peers, outgoing) }, expected }
        }
        _ => return None,
    })
}

fn of_inter(
    call: &InterCall<'_>,
    arguments: &Arguments,
    reduction: Option<&Reduction>,
    members: &Members,
) -> Pairs {
    let Arguments { send, recv, send_peers, recv_peers } = arguments;
    let size = members.sources;
    let none = || nothing(size);
    let vector = |bytes: u64| {
        let datatype = reduction.map(|reduction| &reduction.datatype);
        datatype.map_or(Amount::of(send, bytes), |datatype| Amount::new(datatype, bytes))
    };
    // What goes down from a root, and what goes up to it.
    let down = |root: Root, out: Vec<Option<Amount>>, own: Amount| match root {
        Root::Here => Pairs { given: out, expected: none() },
        Root::Remote(root) => Pairs { given: none(), expected: at(root, own, size) },
        Root::Elsewhere => Pairs { given: none(), expected: none() },
    };
    let up = |root: Root, incoming: Vec<Option<Amount>>, own: Amount| match root {
        Root::Here => Pairs { given: none(), expected: incoming },
        Root::Remote(root) => Pairs { given: at(root, own, size), expected: none() },
        Root::Elsewhere => Pairs { given: none(), expected: none() },
    };
    match *call {
        InterCall::Barrier => Pairs { given: none(), expected: none() },
        InterCall::Bcast { root, bytes } => {
            let whole = Amount::of(recv, bytes);
            down(root, same(whole, size), whole)
        }
        InterCall::Gather { root, bytes } => {
            up(root, same(Amount::of(recv, bytes), size), Amount::of(send, bytes))
        }
        InterCall::Gatherv { root, bytes, blocks } => up(root, placed(recv, blocks), Amount::of(send, bytes)),
        InterCall::Scatter { root, bytes } => {
            down(root, same(Amount::of(send, bytes), size), Amount::of(recv, bytes))
        }
        InterCall::Scatterv { root, bytes, blocks } => {
            down(root, placed(send, blocks), Amount::of(recv, bytes))
        }
        InterCall::Allgather { sent, received } | InterCall::Alltoall { sent, received } => Pairs {
            given: same(Amount::of(send, sent), size),
            expected: same(Amount::of(recv, received), size),
        },
        InterCall::Allgatherv { sent, blocks } => {
            Pairs { given: same(Amount::of(send, sent), size), expected: placed(recv, blocks) }
        }
        InterCall::Alltoallv { send: outgoing, recv: incoming } => {
            Pairs { given: placed(send, outgoing), expected: placed(recv, incoming) }
        }
        InterCall::Alltoallw { send: outgoing, recv: incoming } => {
            Pairs { given: typed(send_peers, outgoing), expected: typed(recv_peers, incoming) }
        }
        InterCall::Reduce { root, vector: operands } => {
            let whole = vector(operands.bytes());
            up(root, same(whole, size), whole)
        }
        InterCall::Allreduce { vector: operands } | InterCall::ReduceScatter { vector: operands, .. } => {
            let whole = vector(operands.bytes());
            Pairs { given: same(whole, size), expected: same(whole, size) }
        }
    }
}
