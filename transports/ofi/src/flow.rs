//! The two ways between this process and a peer: who may send how much, and what comes in which order. Pure.
//!
//! A way has room for [`WINDOW`] packets that were sent and not yet taken by the receiver's engine. Each message tells what of
//! the other way was taken; a receiver that has nothing to send tells it by a message of its own when half of the window is
//! due. Packets carry numbers, so that they are seen in order also where a provider does not keep it.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

/// Packets of one way that were sent and are not taken.
pub const WINDOW: u16 = 64;

/// The state of both ways; `P` stands for a packet that has arrived.
#[derive(Debug)]
pub struct Flow<P> {
    /// Sent, in all.
    sent: u16,
    /// Of those, taken by the peer.
    taken_there: u16,
    /// Of those, arrived at the peer.
    arrived_there: u16,
    /// In order, waiting to be taken.
    inbox: VecDeque<P>,
    /// Before their turn, with their numbers.
    early: Vec<(u16, P)>,
    /// Arrived in order, in all.
    arrived: u16,
    /// Taken, in all.
    taken: u16,
    /// What the peer knows of `taken`.
    told_taken: u16,
    /// Nothing more is taken in.
    ended: bool,
}

impl<P> Default for Flow<P> {
    fn default() -> Flow<P> {
        Flow {
            sent: 0,
            taken_there: 0,
            arrived_there: 0,
            inbox: VecDeque::new(),
            early: Vec::new(),
            arrived: 0,
            taken: 0,
            told_taken: 0,
            ended: false,
        }
    }
}

impl<P> Flow<P> {
    /// Whether a packet may be sent.
    pub fn has_room(&self) -> bool {
        self.sent.wrapping_sub(self.taken_there) < WINDOW
    }

    /// The number of the next packet.
    pub fn next(&self) -> u16 {
        self.sent
    }

    /// A packet was sent.
    pub fn was_sent(&mut self) {
        self.sent = self.sent.wrapping_add(1);
    }

    /// Whether every packet sent is known to have arrived.
    pub fn has_left(&self) -> bool {
        self.sent == self.arrived_there
    }

    /// How many of the packets sent are known to have arrived, modulo 2^16.
    pub fn arrived_there(&self) -> u16 {
        self.arrived_there
    }

    /// What to tell the peer: packets taken and arrived.
    pub fn seen(&self) -> (u16, u16) {
        (self.taken, self.arrived)
    }

    /// As [`Flow::seen`], and it counts as told.
    pub fn news(&mut self) -> (u16, u16) {
        self.told_taken = self.taken;
        (self.taken, self.arrived)
    }

    /// Whether the peer must be told soon: half of its window is used up.
    pub fn owes_news(&self) -> bool {
        self.taken.wrapping_sub(self.told_taken) >= WINDOW / 2
    }

    /// The peer tells what it has taken and what has arrived there. Old news, and what cannot be true, changes nothing.
    pub fn told(&mut self, taken: u16, arrived: u16) {
        let at_most = |known: &mut u16, told: u16| {
            if told.wrapping_sub(*known) <= self.sent.wrapping_sub(*known) {
                *known = told;
            }
        };
        at_most(&mut self.taken_there, taken);
        at_most(&mut self.arrived_there, arrived);
    }

    /// A packet with its number. Gives back one that is there already, or far from its turn.
    ///
    /// # Errors
    /// The packet, which has no place here.
    pub fn arrive(&mut self, number: u16, packet: P) -> Result<(), P> {
        let ahead = number.wrapping_sub(self.arrived);
        if self.ended {
            return Err(packet);
        }
        if ahead == 0 {
            self.inbox.push_back(packet);
            self.arrived = self.arrived.wrapping_add(1);
            while let Some(at) = self.early.iter().position(|(number, _)| *number == self.arrived) {
                self.inbox.push_back(self.early.swap_remove(at).1);
                self.arrived = self.arrived.wrapping_add(1);
            }
            return Ok(());
        }
        if ahead >= WINDOW || self.early.iter().any(|(early, _)| *early == number) {
            return Err(packet);
        }
        self.early.push((number, packet));
        Ok(())
    }

    /// Whether a packet is missing of those with numbers below `next`, or of those before one that is here.
    pub fn lacks(&self, next: u16) -> bool {
        !self.early.is_empty() || next.wrapping_sub(self.arrived).wrapping_sub(1) < WINDOW
    }

    /// Nothing more is taken in: gives back what came before its turn, which never will.
    pub fn end(&mut self) -> impl Iterator<Item = P> + use<P> {
        self.ended = true;
        std::mem::take(&mut self.early).into_iter().map(|(_, packet)| packet)
    }

    /// The next packet.
    pub fn front(&self) -> Option<&P> {
        self.inbox.front()
    }

    /// Takes the next packet.
    pub fn take(&mut self) -> Option<P> {
        let packet = self.inbox.pop_front()?;
        self.taken = self.taken.wrapping_add(1);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Two ends, a way that delays and reorders: everything arrives once and in order, nobody exceeds the window, and
        /// nobody starves.
        #[test]
        fn packets_are_taken_in_order_whatever_the_way_does(before: u16, choices in prop::collection::vec(0_usize..1000, 1..4000)) {
            // So many packets came before, so that numbers wrap somewhere.
            let mut sender = Flow::<u32> { sent: before, taken_there: before, arrived_there: before, ..Flow::default() };
            let mut receiver = Flow::<u32> { arrived: before, taken: before, told_taken: before, ..Flow::default() };
            let mut air: Vec<(u16, u32)> = Vec::new();
            let mut news: VecDeque<(u16, u16)> = VecDeque::new();
            let (mut sent, mut taken) = (0_u32, 0_u32);
            for choice in choices {
                match choice % 4 {
                    0 if sender.has_room() => {
                        air.push((sender.next(), sent));
                        sender.was_sent();
                        sent += 1;
                    }
                    1 if !air.is_empty() => {
                        let (number, packet) = air.swap_remove(choice % air.len());
                        prop_assert_eq!(receiver.arrive(number, packet), Ok(()));
                    }
                    2 => {
                        if let Some(packet) = receiver.take() {
                            prop_assert_eq!(packet, taken);
                            taken += 1;
                        }
                    }
                    _ => {
                        if receiver.owes_news() {
                            news.push_back(receiver.news());
                        }
                        if let Some((taken, arrived)) = news.pop_front() {
                            sender.told(taken, arrived);
                        }
                    }
                }
                prop_assert!(sent - taken <= u32::from(WINDOW));
            }
            while taken < sent {
                while let Some((number, packet)) = air.pop() {
                    prop_assert_eq!(receiver.arrive(number, packet), Ok(()));
                }
                prop_assert_eq!(receiver.take(), Some(taken));
                taken += 1;
            }
            let (taken_now, arrived_now) = receiver.news();
            sender.told(taken_now, arrived_now);
            prop_assert!(sender.has_left() && sender.has_room());
        }

        #[test]
        fn news_of_any_kind_never_opens_more_than_the_window(news in prop::collection::vec((any::<u16>(), any::<u16>()), 0..50)) {
            let mut flow = Flow::<()>::default();
            for (taken, arrived) in news {
                flow.told(taken, arrived);
                if flow.has_room() {
                    flow.was_sent();
                }
                prop_assert!(flow.sent.wrapping_sub(flow.taken_there) <= WINDOW);
            }
        }
    }

    #[test]
    fn a_packet_that_came_before_is_given_back() {
        let mut flow = Flow::default();
        assert_eq!(flow.arrive(0, 'a'), Ok(()));
        assert_eq!(flow.arrive(0, 'a'), Err('a'));
        assert_eq!(flow.arrive(2, 'c'), Ok(()));
        assert_eq!(flow.arrive(2, 'c'), Err('c'));
        assert_eq!(flow.arrive(WINDOW + 1, 'x'), Err('x'));
        assert!(flow.lacks(1), "the second is missing, for the third is here");
        assert_eq!(flow.arrive(1, 'b'), Ok(()));
        assert!(!flow.lacks(3) && !flow.lacks(2) && flow.lacks(4), "a fourth is missing if it was sent");
        assert_eq!(
            [flow.take(), flow.take(), flow.take(), flow.take()],
            [Some('a'), Some('b'), Some('c'), None]
        );
    }
}
