//! Announcements without end: how many messages one sender may make one receiver remember that no receive waits for.
//!
//! An announcement costs the receiver an entry, so their number is bounded as bytes are: the sender spends one credit for
//! each, and holds further messages back when none is left; the receiver gives credits back when messages have met their
//! receives. Held-back messages would keep a receive waiting that one of them matches (section 3.5, progress): as long as
//! something at the receiver waits on a channel that may be held back, the receiver *asks* for more on that channel, and
//! gets it beside the bound. So the bound is exceeded by programs only that do look for something in the depth of the flood.

use crate::credit::OVERHEAD;
use weft_types::ContextId;

/// How many announcements a sender with an eager budget of `budget` bytes may have at a receiver: they may take as much
/// memory again.
#[inline]
pub const fn announcements(budget: u32) -> u32 {
    let number = budget / OVERHEAD;
    if number < 64 { 64 } else { number }
}

/// Whether announcements on that channel are counted: those of programs are. What the library itself sends on other channels
/// is awaited, and must not wait behind a program's flood.
#[inline]
pub const fn is_counted(context: ContextId) -> bool {
    context.0 & (1 << 31 | 1) == 0
}

/// How many more are asked for at a time.
#[inline]
const fn helping(limit: u32) -> u32 {
    let number = limit / 4;
    if number < 8 { 8 } else { number }
}

/// What an announcement is sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnounceCredit {
    /// One of the bounded number.
    Usual,
    /// One that the receiver asked for on this channel.
    Asked,
}

/// Numbers by channel; few at any time.
type PerContext = Vec<(ContextId, u32)>;

fn number(of: &PerContext, context: ContextId) -> u32 {
    of.iter().find(|(other, _)| *other == context).map_or(0, |&(_, number)| number)
}

fn add(to: &mut PerContext, context: ContextId, more: u32) {
    match to.iter_mut().find(|(other, _)| *other == context) {
        Some((_, number)) => *number = number.saturating_add(more),
        None => to.push((context, more)),
    }
}

/// Takes one away; false when there is none.
fn take_one(from: &mut PerContext, context: ContextId) -> bool {
    let Some(index) = from.iter().position(|(other, _)| *other == context) else { return false };
    from[index].1 -= 1;
    if from[index].1 == 0 {
        from.swap_remove(index);
    }
    true
}

/// The sender's side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnounceWindow {
    usual: u32,
    asked: PerContext,
}

impl AnnounceWindow {
    /// A window of that many announcements, at least one.
    pub const fn new(limit: u32) -> AnnounceWindow {
        AnnounceWindow { usual: if limit == 0 { 1 } else { limit }, asked: Vec::new() }
    }

    /// Takes a credit for a message of that channel; `None`: it is to be held back.
    pub fn take(&mut self, context: ContextId) -> Option<AnnounceCredit> {
        if self.usual > 0 {
            self.usual -= 1;
            return Some(AnnounceCredit::Usual);
        }
        take_one(&mut self.asked, context).then_some(AnnounceCredit::Asked)
    }

    /// Whether [`AnnounceWindow::take`] would give one.
    pub fn has(&self, context: ContextId) -> bool {
        self.usual > 0 || number(&self.asked, context) > 0
    }

    /// A credit was not used after all.
    pub fn put_back(&mut self, credit: AnnounceCredit, context: ContextId) {
        match credit {
            AnnounceCredit::Usual => self.usual += 1,
            AnnounceCredit::Asked => add(&mut self.asked, context, 1),
        }
    }

    /// The receiver gave credits back.
    pub const fn grant(&mut self, credits: u32) {
        self.usual = self.usual.saturating_add(credits);
    }

    /// The receiver asks for more of that channel. The number of channels it has asked for and that have none yet.
    pub fn ask(&mut self, context: ContextId, credits: u32) -> usize {
        if credits > 0 {
            add(&mut self.asked, context, credits);
        }
        self.asked.len()
    }
}

/// The receiver's side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnounceLedger {
    limit: u32,
    /// Usual credits that the sender does not have: of messages here, and owed.
    out: u32,
    owed: u32,
    /// What was asked for and has not come.
    asked: PerContext,
}

impl AnnounceLedger {
    /// A ledger for a sender with such a window.
    pub const fn new(limit: u32) -> AnnounceLedger {
        AnnounceLedger { limit: if limit == 0 { 1 } else { limit }, out: 0, owed: 0, asked: Vec::new() }
    }

    /// An announcement has come. False when the sender had no credit for it: it is broken.
    #[must_use]
    pub fn arrived(&mut self, credit: AnnounceCredit, context: ContextId) -> bool {
        match credit {
            AnnounceCredit::Usual => {
                self.out += 1;
                self.out <= self.limit
            }
            AnnounceCredit::Asked => take_one(&mut self.asked, context),
        }
    }

    /// An announced message has met its receive, or was taken back.
    pub const fn left(&mut self, credit: AnnounceCredit) {
        if matches!(credit, AnnounceCredit::Usual) {
            self.owed += 1;
        }
    }

    /// Whether it is time to give credits back.
    pub const fn is_due(&self) -> bool {
        self.owed > self.limit / 4
    }

    /// The credits to give back now, all of them.
    pub const fn collect(&mut self) -> u32 {
        self.out -= self.owed;
        std::mem::replace(&mut self.owed, 0)
    }

    /// Whether the sender may have none left. Otherwise it has some, or what it spent them on is still to come.
    pub const fn is_exhausted(&self) -> bool {
        self.out >= self.limit
    }

    /// Whether more was asked for of a channel that has not come.
    pub fn awaits(&self, context: ContextId) -> bool {
        number(&self.asked, context) > 0
    }

    /// Something waits on a channel: how many more to ask for; 0 when enough were asked for that have not come.
    pub fn ask(&mut self, context: ContextId) -> u32 {
        if number(&self.asked, context) > 0 {
            return 0;
        }
        let more = helping(self.limit);
        add(&mut self.asked, context, more);
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Send(u32),
        Receive,
        Look(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![4 => (0_u32..3).prop_map(Step::Send), 2 => Just(Step::Receive), 1 => (0_u32..3).prop_map(Step::Look)]
    }

    proptest! {
        /// Whatever is sent, received and looked for: the receiver never holds more than the bound without having asked, its
        /// books agree with the sender's, and a channel that is looked for is never held back.
        #[test]
        fn books_agree(limit in 1_u32..60, steps in proptest::collection::vec(step(), 0..600)) {
            let (mut window, mut ledger) = (AnnounceWindow::new(limit), AnnounceLedger::new(limit));
            let mut here: VecDeque<AnnounceCredit> = VecDeque::new();
            let mut helped = 0;
            for step in steps {
                match step {
                    Step::Send(context) => {
                        if let Some(credit) = window.take(ContextId(context)) {
                            prop_assert!(ledger.arrived(credit, ContextId(context)));
                            here.push_back(credit);
                        }
                    }
                    Step::Receive => {
                        if let Some(credit) = here.pop_front() {
                            ledger.left(credit);
                            if ledger.is_due() {
                                window.grant(ledger.collect());
                            }
                        }
                    }
                    Step::Look(context) if ledger.is_exhausted() => {
                        window.grant(ledger.collect());
                        let more = ledger.ask(ContextId(context));
                        window.ask(ContextId(context), more);
                        helped += more;
                        prop_assert!(window.has(ContextId(context)));
                    }
                    Step::Look(_) => {}
                }
                prop_assert!(here.len() as u32 <= limit + helped);
                prop_assert!(ledger.is_exhausted() == (window.usual == 0));
            }
        }
    }

    #[test]
    fn what_was_not_used_can_be_used_again_and_too_many_are_noticed() {
        let (mut window, mut ledger) = (AnnounceWindow::new(16), AnnounceLedger::new(16));
        let context = ContextId(4);
        for _ in 0..16 {
            let credit = window.take(context).expect("within the bound");
            assert!(ledger.arrived(credit, context));
        }
        assert_eq!(window.take(context), None);
        window.ask(context, 1);
        assert_eq!(window.take(ContextId(6)), None, "asked for on another channel");
        let credit = window.take(context).expect("asked for");
        window.put_back(credit, context);
        assert_eq!(window.take(context), Some(AnnounceCredit::Asked));
        assert!(!ledger.arrived(AnnounceCredit::Usual, context));
        assert!(!ledger.arrived(AnnounceCredit::Asked, context), "the receiver did not ask");
    }
}
