//! Ranks that die, and those that go on without them.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use weft_boot::stall;
use weft_shm::Word;
use weft_types::PeerId;

use super::Job;
use crate::judge::{End, Order};
use crate::report;
use crate::spawn;
use crate::ways::Step;
use crate::words;

impl Job {
    /// Tells those that go on that `lost` has died, in the memory that they share: whoever sleeps there is woken. Where that
    /// cannot be done they would wait for ever, and the job ends.
    pub(super) fn tell_of_death(&mut self, lost: usize) {
        let size = self.ranks.len() as u32;
        let told = self.memory.try_clone().map_err(|error| error.to_string()).and_then(|memory| {
            weft_shm::mark_dead(&File::from(memory), size, lost as u32)
                .map_err(|error| error.text().to_owned())
        });
        // Not before the others can know: one that says then that it waits for this rank has not looked again since.
        self.watch.gone(lost, stall::now(), Instant::now());
        self.watch.died(lost);
        match told {
            Ok(()) => eprint!("{}", report::lost(&self.judge, &self.ranks[lost].known, &self.host)),
            Err(why) => {
                eprintln!("mpiexec: the others cannot be told that rank {lost} has died: {why}");
                let order = self.judge.cannot_tell(lost, Instant::now());
                self.obey(order);
            }
        }
    }

    /// A rank asks others in vain over its fabric: those are asked, or it is certain that no way leads there. A word that cannot be
    /// told leaves them waiting.
    pub(super) fn in_vain(&mut self, rank: usize, others: &[usize], patience: Duration) {
        let running: Vec<usize> =
            others.iter().copied().filter(|&other| self.judge.is_running(other)).collect();
        for step in self.ways.in_vain(rank, &running, patience, Instant::now()) {
            let peer = |rank: usize| PeerId(rank as u32);
            match step {
                Step::Ask { rank, about } => {
                    self.tell_word(Word::Asks { local: rank as u32, peer: peer(about) })
                }
                Step::Cut { one, other, time } => {
                    if self.ways.is_to_be_told([0, 0]) {
                        eprint!("{}", report::cut((one, &self.host), (other, &self.host), time));
                    }
                    self.tell_word(Word::Unreachable { local: one as u32, peer: peer(other) });
                    self.tell_word(Word::Unreachable { local: other as u32, peer: peer(one) });
                }
            }
        }
    }

    fn tell_word(&mut self, word: Word) {
        if let Err(why) = words::tell(&self.memory, self.ranks.len(), word)
            && self.ways.misses_words()
        {
            eprint!("{}", report::not_said(&self.host, &why));
        }
    }

    /// Judges ranks that died by a signal, for whom another one may be about to end the job.
    pub(super) fn judge_deaths(&mut self) -> io::Result<()> {
        let running: Vec<usize> = self.judge.running().filter(|&rank| rank < self.ranks.len()).collect();
        for rank in running {
            if let Some(end @ End::Signal { .. }) = spawn::ended(self.ranks[rank].pid)? {
                self.judge_end(rank, end)?;
            }
        }
        Ok(())
    }

    /// Judges the end of a rank's process, after everything that was said before it.
    pub(super) fn judge_end(&mut self, rank: usize, end: End) -> io::Result<()> {
        // It may have begun MPI, or said good-bye, or why it ends, with its last breath.
        self.listen(rank)?;
        // Whether the others go on without it may be among what they have said.
        self.catch_up()?;
        if !self.judge.is_running(rank) {
            return Ok(());
        }
        self.ways.gone(rank);
        let order = self.judge.ended(rank, end, Instant::now());
        if !matches!(order, Some(Order::Tell(_))) {
            self.watch.gone(rank, stall::now(), Instant::now());
        }
        self.obey(order);
        Ok(())
    }
}
