//! [`Traced`]: what passes between the owner of a transport and the transport, as a file that packet dissectors read.
//!
//! Every process writes a file of its own. What it sees is put into the words of RDMA, so that tshark and Wireshark name it:
//!
//! | at the seam | in the file, as RoCEv2 |
//! | --- | --- |
//! | a packet sent or taken | SEND Only; its content begins with the 16 bytes of Weft's header |
//! | put, with its address, key and bytes | WRITE Only; First where it is longer than 4096 bytes, and then no others follow |
//! | get | READ Request |
//! | flush | READ Request of no bytes |
//! | atomic | Fetch Add, Compare Swap |
//! | the end of a get or a flush, of an atomic, of a put with a token | READ Response Only without bytes, ATOMIC Acknowledge, Acknowledge; where it failed, a negative Acknowledge |
//!
//! Process `r` has the address 10.0.0.0 + `r` and the queue pair 256 + `r`; packet numbers count by peer and direction. A packet is
//! written when it has been taken by the transport, or when the owner has dropped it: what is refused, or not looked at, does not
//! stand there. Times are the machine's. Content beyond the first bytes (`snap`) is left out, as captures do; of puts and gets from
//! registered memory none is there, since nobody here may read it.
//!
//! *Bounded*: a file ends when it is as long as it may be, with a word to standard error. One that cannot be written any more ends
//! likewise, and the traffic goes on.

use super::{Clock, pass, plainly};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_api::verbs::Access;
use weft_api::zero_copy::{
    Atomic, Completed, LocalRun, MemoryRange, Outcome, Region, RegionId, RemoteMemory, RemoteRun, Token,
    Unregistered, ZeroCopy,
};
use weft_api::{Capabilities, Refused, Transport};
use weft_softroce::wire::icrc::{Flow, seal};
use weft_softroce::wire::{Aeth, AtomicEth, Opcode, Packet, Reth, Syndrome, UDP_PORT};
use weft_softroce::{Capture, Psn};
use weft_types::params::PacketTrace;
use weft_types::{Error, ErrorClass, PeerId, Result as Answer};
use weft_wire::Header;

/// A longer write would be several packets.
const MTU: u64 = 4096;
/// What is written is in the file at the latest after so many nanoseconds in which the owner goes on calling.
const UNWRITTEN: u64 = 50_000_000;
/// The longest content of a packet that an IP header can tell.
const LONGEST: u64 = 60_000;

/// The queue pair of a process: numbers 0 and 1 are those of management.
const fn pair(process: PeerId) -> u32 {
    256 + process.0
}

/// A transport whose traffic is written down; see the module.
#[derive(Debug)]
pub struct Traced<T> {
    inner: T,
    tape: Option<Tape>,
}

/// An operation whose end is awaited.
#[derive(Clone, Copy, Debug)]
struct Open {
    peer: PeerId,
    psn: Psn,
    answer: Opcode,
}

#[derive(Debug)]
struct Tape {
    capture: Capture<BufWriter<File>>,
    trace: PacketTrace,
    file: String,
    clock: Clock,
    me: PeerId,
    port: u16,
    /// Bytes that the file may still grow by.
    left: u64,
    /// Since when something is written and not in the file.
    unwritten_since: Option<u64>,
    /// By peer: the next number of what goes there, and of what comes from there.
    numbers: BTreeMap<u32, [u32; 2]>,
    open: BTreeMap<u64, Open>,
    /// The first bytes of what `fill` has written.
    content: Vec<u8>,
    datagram: Vec<u8>,
}

impl<T: Transport> Traced<T> {
    /// Writes down the traffic of process `me`, if a file is named; `lane`: of a process that has several, which is written behind
    /// its rank.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn new(
        inner: T,
        trace: Option<PacketTrace>,
        me: PeerId,
        lane: u32,
        clock: Clock,
    ) -> Answer<Traced<T>> {
        let tape = trace.map(|trace| Tape::new(trace, me, lane, clock)).transpose()?;
        Ok(Traced { inner, tape })
    }

    /// Where packets are written down, if they are.
    pub fn trace(&self) -> Option<&PacketTrace> {
        self.tape.as_ref().map(|tape| &tape.trace)
    }

    /// The transport below.
    pub const fn inner(&self) -> &T {
        &self.inner
    }

    /// The same, to work with.
    pub const fn inner_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    fn note(&mut self, note: impl FnOnce(&mut Tape)) {
        if let Some(tape) = &mut self.tape {
            note(tape);
            if tape.left == 0 {
                self.tape = None;
            }
        }
    }

    /// `call` with a `fill` of whose bytes the first ones are kept for the file.
    fn filled<R>(
        &mut self,
        fill: impl FnOnce(&mut [u8]),
        call: impl FnOnce(&mut T, &mut dyn FnMut(&mut [u8])) -> R,
    ) -> R {
        let Traced { inner, tape } = self;
        plainly(fill, |fill| match tape {
            None => call(inner, fill),
            Some(tape) => call(inner, &mut |room: &mut [u8]| {
                fill(room);
                tape.content.clear();
                tape.content.extend_from_slice(&room[..room.len().min(tape.trace.snap as usize)]);
            }),
        })
    }
}

impl Tape {
    fn new(trace: PacketTrace, me: PeerId, lane: u32, clock: Clock) -> Answer<Tape> {
        let file = match lane {
            0 => trace.file(me.0),
            lane => trace.path.replace("%r", &format!("{}.{lane}", me.0)),
        };
        let capture = File::create(&file)
            .and_then(|output| Capture::new(BufWriter::with_capacity(1 << 16, output)))
            .map_err(|error| {
                Error::new(
                    ErrorClass::OTHER,
                    format!("packets cannot be written to {file} (WEFT_TRACE_PACKETS): {error}"),
                )
            })?;
        Ok(Tape {
            capture,
            left: trace.most,
            trace,
            file,
            clock,
            me,
            port: 0xc000 | lane as u16,
            unwritten_since: None,
            numbers: BTreeMap::new(),
            open: BTreeMap::new(),
            content: Vec::new(),
            datagram: Vec::new(),
        })
    }

    /// The next packet number to a peer, or from it.
    fn number(&mut self, peer: PeerId, comes: bool) -> Psn {
        let next = &mut self.numbers.entry(peer.0).or_default()[usize::from(comes)];
        *next += 1;
        Psn::new(*next - 1)
    }

    /// One packet to a peer, or from it, with the beginning of its content and its length.
    fn write(&mut self, peer: PeerId, comes: bool, packet: &Packet<'_>, content: [&[u8]; 2], length: u64) {
        if self.left == 0 {
            return;
        }
        let at = |process: PeerId| IpAddr::V4(Ipv4Addr::from_bits(10 << 24 | process.0 & 0x00ff_ffff));
        let (from, to) = if comes { (peer, self.me) } else { (self.me, peer) };
        let flow = Flow {
            source: SocketAddr::new(at(from), self.port),
            destination: SocketAddr::new(at(to), UDP_PORT),
        };
        let length = length.min(LONGEST);
        self.datagram.clear();
        packet.emit(&mut self.datagram);
        let pad = (length.wrapping_neg() & 3) as u8;
        // The packet was made without content: what would fill it up stands in the second byte.
        self.datagram[1] |= pad << 4;
        let mut room = length.min(u64::from(self.trace.snap)) as usize;
        let before = self.datagram.len();
        for part in content {
            let part = &part[..part.len().min(room)];
            room -= part.len();
            self.datagram.extend_from_slice(part);
        }
        let kept = (self.datagram.len() - before) as u64;
        let mut more = 0;
        if kept == length {
            self.datagram.extend_from_slice(&[0; 3][..usize::from(pad)]);
            seal(flow, &mut self.datagram);
        } else {
            more = (length - kept) as u16 + u16::from(pad) + 4;
        }
        let now = self.clock.now();
        let wrote = self.capture.write_beginning(now, (flow.source, flow.destination), &self.datagram, more);
        self.unwritten_since.get_or_insert(now);
        match wrote {
            Ok(bytes) if bytes < self.left => self.left -= bytes,
            other => {
                let why = other.map_or_else(
                    |error| error.to_string(),
                    |_| "it is as long as it may be (most)".to_owned(),
                );
                eprintln!("weft: {} ends here: {why}", self.file);
                self.push();
                self.left = 0;
            }
        }
    }

    /// What is written is in the file.
    fn push(&mut self) {
        self.unwritten_since = None;
        // A disk that is full is noticed with the next packet.
        let _ = self.capture.output().flush();
    }

    fn packet(&mut self, peer: PeerId, comes: bool, header: Header, payload: &[u8], length: usize) {
        let psn = self.number(peer, comes);
        let packet = Packet::new(Opcode::SEND_ONLY, pair(if comes { self.me } else { peer }), psn);
        let [first, second] = header.words().map(u64::to_le_bytes);
        let mut head = [0; Header::BYTES];
        head[..8].copy_from_slice(&first);
        head[8..].copy_from_slice(&second);
        self.write(peer, comes, &packet, [&head, payload], (Header::BYTES + length) as u64);
    }

    /// A request, and that its answer is awaited, if there is one.
    fn request(&mut self, peer: PeerId, packet: Packet<'_>, length: u64, awaited: Option<(Token, Opcode)>) {
        let content = std::mem::take(&mut self.content);
        self.write(peer, false, &packet, [&content, &[]], length);
        self.content = content;
        self.content.clear();
        if let Some((token, answer)) = awaited {
            self.open.insert(token.0, Open { peer, psn: packet.psn, answer });
        }
    }

    fn one_sided(&mut self, peer: PeerId, opcode: Opcode, to: RemoteRun) -> Packet<'static> {
        let length = to.length.min(u64::from(u32::MAX)) as u32;
        let reth = Some(Reth { address: to.memory.address, rkey: to.memory.key as u32, length });
        Packet { reth, ..Packet::new(opcode, pair(peer), self.number(peer, false)) }
    }

    fn put(&mut self, peer: PeerId, to: RemoteRun, token: Option<Token>) {
        let opcode = if to.length > MTU { Opcode::WRITE_FIRST } else { Opcode::WRITE_ONLY };
        let packet = self.one_sided(peer, opcode, to);
        let awaited = token.map(|token| (token, Opcode::ACKNOWLEDGE));
        self.request(peer, Packet { ack_request: token.is_some(), ..packet }, to.length.min(MTU), awaited);
    }

    fn read(&mut self, peer: PeerId, from: RemoteRun, token: Token) {
        let packet = self.one_sided(peer, Opcode::READ_REQUEST, from);
        self.request(peer, packet, 0, Some((token, Opcode::READ_RESPONSE_ONLY)));
    }

    fn atomic(&mut self, peer: PeerId, at: RemoteMemory, operation: Atomic, token: Token) {
        let (opcode, swap_or_add, compare) = match operation {
            Atomic::FetchAdd(add) => (Opcode::FETCH_ADD, add, 0),
            Atomic::CompareSwap { compare, swap } => (Opcode::COMPARE_SWAP, swap, compare),
        };
        let atomic = Some(AtomicEth { address: at.address, rkey: at.key as u32, swap_or_add, compare });
        let packet = Packet { atomic, ..Packet::new(opcode, pair(peer), self.number(peer, false)) };
        self.request(peer, packet, 0, Some((token, Opcode::ATOMIC_ACKNOWLEDGE)));
    }

    fn ended(&mut self, done: &Completed) {
        let Some(Open { peer, psn, answer }) = self.open.remove(&done.token.0) else { return };
        let (opcode, syndrome, found) = match done.outcome {
            Outcome::Done(found) => (answer, Syndrome::UNCOUNTED, found),
            Outcome::Failed => (Opcode::ACKNOWLEDGE, Syndrome::RemoteOperation, 0),
        };
        let packet = Packet {
            aeth: Some(Aeth { syndrome, msn: 0 }),
            original: (opcode == Opcode::ATOMIC_ACKNOWLEDGE).then_some(found),
            ..Packet::new(opcode, pair(self.me), psn)
        };
        self.write(peer, true, &packet, [&[], &[]], 0);
    }
}

impl<T: Transport> Transport for Traced<T> {
    type Bell = T::Bell;

    pass! { capabilities connect peek ready is_gone departures push_out lost read_remote zero_copy register deregister }

    fn send_inline(&mut self, peer: PeerId, header: Header, payload: &[u8]) -> Result<(), Refused> {
        self.inner.send_inline(peer, header, payload)?;
        self.note(|tape| tape.packet(peer, false, header, payload, payload.len()));
        Ok(())
    }

    fn send_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        header: Header,
        len: usize,
        fill: F,
    ) -> Result<(), Refused> {
        self.filled(fill, |below, fill| below.send_copy(peer, header, len, fill))?;
        self.note(|tape| {
            let content = std::mem::take(&mut tape.content);
            tape.packet(peer, false, header, &content, len);
            tape.content = content;
            tape.content.clear();
        });
        Ok(())
    }

    fn advance(&mut self, peer: PeerId) {
        let Traced { inner, tape } = self;
        if let Some(tape) = tape
            && let Some((header, payload)) = inner.peek(peer)
        {
            tape.packet(peer, true, header, payload, payload.len());
        }
        self.inner.advance(peer);
        self.note(|_| {});
    }

    fn progress(&mut self) -> bool {
        if let Some(tape) = &mut self.tape
            && tape.unwritten_since.is_some_and(|since| tape.clock.now() - since > UNWRITTEN)
        {
            tape.push();
        }
        self.inner.progress()
    }

    fn rest(&mut self) {
        self.note(Tape::push);
        self.inner.rest();
    }

    fn get(
        &mut self,
        peer: PeerId,
        from: &[RemoteRun],
        into: &[LocalRun],
        token: Token,
    ) -> Result<(), Refused> {
        self.inner.get(peer, from, into, token)?;
        self.note(|tape| from.iter().for_each(|&run| tape.read(peer, run, token)));
        Ok(())
    }

    fn put(
        &mut self,
        peer: PeerId,
        from: &[LocalRun],
        to: &[RemoteRun],
        token: Option<Token>,
    ) -> Result<(), Refused> {
        self.inner.put(peer, from, to, token)?;
        self.note(|tape| to.iter().for_each(|&run| tape.put(peer, run, token)));
        Ok(())
    }

    fn put_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        length: usize,
        fill: F,
        to: RemoteMemory,
        token: Option<Token>,
    ) -> Result<(), Refused> {
        self.filled(fill, |below, fill| below.put_copy(peer, length, fill, to, token))?;
        self.note(|tape| tape.put(peer, RemoteRun { memory: to, length: length as u64 }, token));
        Ok(())
    }

    fn atomic(
        &mut self,
        peer: PeerId,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> Result<(), Refused> {
        self.inner.atomic(peer, at, operation, token)?;
        self.note(|tape| tape.atomic(peer, at, operation, token));
        Ok(())
    }

    fn changes_own(&mut self) -> bool {
        self.inner.changes_own()
    }

    fn change_own(&mut self, at: RemoteMemory, operation: Atomic, token: Token) -> Result<(), Refused> {
        self.inner.change_own(at, operation, token)?;
        self.note(|tape| tape.atomic(tape.me, at, operation, token));
        Ok(())
    }

    fn flush(&mut self, peer: PeerId, token: Token) -> Result<(), Refused> {
        self.inner.flush(peer, token)?;
        let nothing = RemoteRun { memory: RemoteMemory { address: 0, key: 0 }, length: 0 };
        self.note(|tape| tape.read(peer, nothing, token));
        Ok(())
    }

    fn completed(&mut self) -> Option<Completed> {
        let done = self.inner.completed()?;
        self.note(|tape| tape.ended(&done));
        Some(done)
    }

    fn bell(&self) -> T::Bell {
        self.inner.bell()
    }
}
