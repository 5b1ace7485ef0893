//! Members on several nodes, over real shared memory inside them and the emulated fabric between them, a thread for each.

use super::super::least;
use super::*;
use crate::rounds::OnNode;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Barrier, Mutex};
use weft_boot::Nodes;
use weft_engine::{Directory, Engine, EngineConfig, Fabric, NodeLocal, PeerCard, Transports, Waiter};
use weft_types::{PeerId, abi};

const COMM: Handle = Handle(abi::MPI_COMM_WORLD);

#[derive(Clone, Debug, Default)]
struct Cards(Arc<Mutex<HashMap<u32, String>>>);

impl Directory for Cards {
    fn find(&mut self, peer: PeerId) -> Result<PeerCard> {
        self.0.lock().expect("nobody panics")[&peer.0].parse()
    }
}

/// The processes of a job whose ranks are on these nodes.
fn transports(nodes: &[u32]) -> Vec<Transports> {
    let (cards, ranks) = (Cards::default(), 0..nodes.len() as u32);
    let segments: Vec<_> = nodes.iter().map(|_| weft_shm::create().expect("a memory file")).collect();
    // All devices before the first engine: then everybody is in the directory.
    let open = |me: u32| {
        let node = nodes[me as usize];
        let peers: Vec<u32> = ranks.clone().filter(|&peer| nodes[peer as usize] == node).collect();
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (fabric, card) =
            Fabric::softroce(PeerId(me), address, 1, None, 0, Box::new(cards.clone())).expect("a socket");
        cards.0.lock().expect("nobody panics").insert(me, card);
        if peers.len() == 1 {
            return Transports::over(fabric);
        }
        let node = NodeLocal {
            segment: segments[node as usize].try_clone().expect("a descriptor"),
            local_index: peers.iter().position(|&peer| peer == me).expect("it is there") as u32,
            peers: peers.into_iter().map(PeerId).collect(),
            single_copy: false,
            oversubscribed: true,
        };
        Transports::both(node, fabric).expect("attached")
    };
    ranks.clone().map(open).collect()
}

/// One member, and what the tests do with it.
struct Member {
    process: Process,
    rank: u32,
    size: u32,
    /// It does not hear what its node has agreed on.
    is_deaf: bool,
}

impl Member {
    fn new(transports: Transports, rank: u32, nodes: &[u32]) -> Member {
        let size = nodes.len() as u32;
        let mut process = Process::start().expect("nobody launched the tests");
        let config = EngineConfig { oversubscribed: true, ..EngineConfig::new(PeerId(rank), size) };
        process.engine = Engine::new(config, transports).expect("an engine");
        (process.job.rank, process.job.size) = (rank, size);
        process.job.nodes = Arc::new(Nodes::listed(nodes));
        process.job.local_ranks =
            (0..size).filter(|&other| nodes[other as usize] == nodes[rank as usize]).collect();
        process.start_world();
        Member { process, rank, size, is_deaf: false }
    }

    fn wait<T>(&mut self, mut done: impl FnMut(&mut Process) -> Option<T>) -> T {
        let bell = self.process.bell();
        let mut waiter = Waiter::new(true, 0);
        loop {
            self.process.progress();
            if let Some(value) = done(&mut self.process) {
                waiter.finish(&bell);
                return value;
            }
            waiter.pause(&bell);
        }
    }

    fn complete(&mut self, request: RequestId) -> Result<()> {
        let take = |process: &mut Process| {
            process.engine.is_complete(request).then(|| process.engine.take(request).error)
        };
        self.wait(take).map_or(Ok(()), Err)
    }

    fn make(&mut self) {
        let mut making = self.process.begin_levels(COMM).expect("begun");
        let mut step = 0;
        while let Some(request) = making.request() {
            let well = self.complete(request).is_ok() && !(self.is_deaf && step == 0);
            self.process.go_on_with_levels(&mut making, well);
            step += 1;
        }
    }

    /// One blocking call; whether it went by levels.
    fn call(
        &mut self,
        call: &Call<'_>,
        arguments: &Arguments,
        reduction: Option<&Reduction>,
    ) -> Result<bool> {
        loop {
            let begun = self.process.by_rounds(|process| {
                process.start_collective(COMM, call, arguments.clone(), reduction.cloned())
            });
            match begun? {
                Begun::Messages(request) => return self.complete(request).map(|()| false),
                Begun::AgreeOnLevels(_) => self.make(),
                Begun::Levels(under_way) => return self.by_levels(under_way).map(|()| true),
                other => unreachable!("{other:?} of members on several nodes"),
            }
        }
    }

    fn by_levels(&mut self, mut call: ByLevels) -> Result<()> {
        let mut ended = Ok(());
        loop {
            ended = match self.process.next_by_levels(&mut call, ended) {
                Next::Messages(request) => self.complete(request),
                Next::Cells => self.wait(|process| match call.step() {
                    Outcome::Done => Some(Ok(())),
                    Outcome::Strayed(other) => Some(Err(call.rounds().leave_for_mismatch(other))),
                    Outcome::Unread(_) => unreachable!("nobody reads another's memory"),
                    Outcome::Blocked => process.hopeless_in_rounds(COMM, &mut call).map(Err),
                }),
                Next::Over => return self.process.end_by_levels(call),
            };
        }
    }

    /// The least of what all say; whether that went by levels.
    fn least(&mut self, elements: u64) -> Result<bool> {
        let reduction = least()?;
        let memory = || Memory::scratch(&reduction.datatype, elements);
        let (own, all) = (memory()?, memory()?);
        let said = u64::from(self.size - self.rank) + 100;
        own.recv_view(0, 0, 8).unpack(0, &said.to_ne_bytes());
        let vector = Vector { count: elements, element: 8, commutative: true };
        let call = Call::Allreduce { vector, in_place: false };
        let by_levels = self.call(&call, &Arguments::new(own, all.clone()), Some(&reduction))?;
        let mut heard = [0; 8];
        all.send_view(0, 0, 8).pack(0, &mut heard);
        assert_eq!(u64::from_ne_bytes(heard), 101);
        Ok(by_levels)
    }

    fn has_cells(&self) -> bool {
        let of = self.process.comms.get(COMM).expect("it is there");
        matches!(&of.node.way, OnNode::Levels(levels) if matches!(levels.inside, Inside::Cells(_)))
    }
}

/// Runs `work` at all ranks; none ends before all have done it.
fn on_nodes(nodes: &[u32], work: impl Fn(&mut Member) + Send + Sync) {
    let together = Barrier::new(nodes.len());
    std::thread::scope(|scope| {
        for (rank, transports) in (0..).zip(transports(nodes)) {
            let (work, together) = (&work, &together);
            scope.spawn(move || {
                let mut member = Member::new(transports, rank, nodes);
                work(&mut member);
                // The others may still wait for something that this one is to pass on.
                for _ in 0..200 {
                    member.process.progress();
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                together.wait();
            });
        }
    });
}

#[test]
fn who_stands_for_nobody_sends_no_message() {
    for nodes in [&[0, 0, 1, 1][..], &[0, 1, 1, 0, 1], &[0, 0, 1]] {
        on_nodes(nodes, |member| {
            assert!(!member.least(1).expect("the first"), "many communicators live for one call");
            let first = nodes.iter().position(|&node| node == nodes[member.rank as usize]);
            assert!(member.least(1).expect("the second"));
            let before = member.process.engine.messages_of_collectives();
            for _ in 0..20 {
                assert!(member.least(14).expect("112 bytes"));
                assert!(member.call(&Call::Barrier, &nothing(), None).expect("a barrier"));
            }
            let sent = member.process.engine.messages_of_collectives() - before;
            assert_eq!(sent == 0, first != Some(member.rank as usize), "{sent} at rank {}", member.rank);
            assert!(!member.least(15).expect("120 bytes"), "it fits no cell");
        });
    }
}

#[test]
fn one_that_has_no_cells_keeps_all_with_messages() {
    for deaf in [0, 1, 3] {
        on_nodes(&[0, 0, 1, 1], |member| {
            member.is_deaf = member.rank == deaf;
            assert!((0..5).all(|_| !member.least(1).expect("by messages")));
        });
    }
}

#[test]
fn where_members_leave_their_cells_they_alone_go_by_messages_inside() {
    // One that stands for its node, one that does not.
    for leaver in [2, 3] {
        on_nodes(&[0, 0, 1, 1], |member| {
            assert!((0..3).filter(|_| member.least(1).expect("well")).count() == 2);
            if member.rank == leaver {
                let of = member.process.comms.get_mut(COMM).expect("it is there");
                let OnNode::Levels(levels) = &mut of.node.way else { unreachable!("just used") };
                let Inside::Cells(rounds) = &mut levels.inside else { unreachable!("two are there") };
                rounds.leave_for_memory();
            }
            // Calls that had begun before all of the node knew fail, everywhere.
            let well: Vec<bool> = (0..20).map(|_| member.least(1).is_ok()).collect();
            assert!(well[10..].iter().all(|&well| well), "{well:?}");
            assert_eq!(member.has_cells(), member.rank < 2 && well.iter().all(|&well| well));
            assert!(member.least(1).expect("well"), "in parts as before");
        });
    }
}
