//! Where ranks' standard output and error go.
//!
//! Ranks write straight to mpiexec's own descriptors where that keeps lines whole: a single rank, and terminals and devices (to
//! which C programs write line by line). Into files and pipes C programs write blocks of 4 KiB, which would cut the lines of
//! several ranks into each other; there, and for tagged output, mpiexec puts the lines together ([`crate::lines`]).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::pipe2;

use crate::events::{Events, Token};
use crate::lines::{Lines, Sink};

/// Ranks are not read while more than this waits to be written: they are slowed down to the reader's pace.
pub(crate) const HIGH_WATER: usize = 256 * 1024;

/// The most a pipe that says "writable" takes without blocking (PIPE_BUF).
const PIECE: usize = 4096;

/// How one standard stream of the ranks is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// The rank has mpiexec's own descriptor.
    Direct,
    /// The rank writes into a pipe that mpiexec reads; lines go to this outlet.
    Through(usize),
}

/// Decides for standard output and error. `ranks`: how many there are.
fn routes(ranks: usize, tagged: bool) -> [Route; 2] {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let through = |fd: BorrowedFd<'_>| tagged || (ranks > 1 && !is_device(fd));
    let error_outlet = if same_file(stdout.as_fd(), stderr.as_fd()) { 0 } else { 1 };
    [
        if through(stdout.as_fd()) { Route::Through(0) } else { Route::Direct },
        if through(stderr.as_fd()) { Route::Through(error_outlet) } else { Route::Direct },
    ]
}

fn is_device(fd: BorrowedFd<'_>) -> bool {
    fstat(fd).is_ok_and(|facts| SFlag::from_bits_truncate(facts.st_mode) & SFlag::S_IFMT == SFlag::S_IFCHR)
}

/// Both go to the same place (`2>&1`): then a rank gets one pipe for both, and their order is kept.
pub(crate) fn same_file(left: BorrowedFd<'_>, right: BorrowedFd<'_>) -> bool {
    match (fstat(left), fstat(right)) {
        (Ok(left), Ok(right)) => (left.st_dev, left.st_ino) == (right.st_dev, right.st_ino),
        _ => false,
    }
}

/// One of mpiexec's own outputs and what waits for it.
#[derive(Debug)]
pub(crate) struct Outlet {
    /// Lines on their way.
    pub(crate) sink: Sink,
    written: usize,
    error: bool,
    /// Its reader has gone.
    pub(crate) broken: bool,
}

impl Outlet {
    /// Standard output (0) or standard error (1).
    pub(crate) fn new(number: usize) -> Outlet {
        Outlet { sink: Sink::default(), written: 0, error: number == 1, broken: false }
    }

    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.sink.bytes.len() - self.written
    }

    /// Writes what can be written without blocking; with `wait`, everything.
    pub(crate) fn write(&mut self, wait: bool) {
        while self.waiting() > 0 && !self.broken {
            match self.write_piece(wait) {
                Ok(0) => return,
                Ok(count) => self.written += count,
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(_) => self.broken = true,
            }
        }
        self.sink.bytes.clear();
        self.written = 0;
    }

    fn write_piece(&self, wait: bool) -> nix::Result<usize> {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let fd = if self.error { stderr.as_fd() } else { stdout.as_fd() };
        let patience = if wait { PollTimeout::NONE } else { PollTimeout::ZERO };
        let mut wanted = [PollFd::new(fd, PollFlags::POLLOUT)];
        if poll(&mut wanted, patience)? == 0 {
            return Ok(0);
        }
        let rest = &self.sink.bytes[self.written..];
        nix::unistd::write(fd, &rest[..rest.len().min(PIECE)])
    }
}

/// One output stream of a rank, read by mpiexec.
pub(crate) struct Stream {
    pipe: File,
    tag: String,
    lines: Lines,
    outlet: usize,
    paused: bool,
}

/// The output of all ranks.
pub(crate) struct Outputs {
    routes: [Route; 2],
    tagged: bool,
    streams: Vec<Option<Stream>>,
    outlets: [Outlet; 2],
    /// How often a stream was paused because its outlet was full.
    pauses: usize,
    /// A reader of mpiexec's output went away; ranks that die of SIGPIPE are no news then.
    pub(crate) broken: bool,
}

impl Outputs {
    /// For `ranks` ranks; `tagged`: every line carries its rank.
    pub(crate) fn new(ranks: usize, tagged: bool) -> Outputs {
        Outputs {
            routes: routes(ranks, tagged),
            tagged,
            streams: Vec::new(),
            outlets: [Outlet::new(0), Outlet::new(1)],
            pauses: 0,
            broken: false,
        }
    }

    /// Connects a rank's standard output and error; what mpiexec has to read comes back, to be given to [`Outputs::adopt`].
    pub(crate) fn connect(&self, command: &mut Command, rank: usize) -> io::Result<Vec<Stream>> {
        let mut streams: Vec<Stream> = Vec::new();
        let mut writers: [Option<OwnedFd>; 2] = [None, None];
        for (number, route) in self.routes.into_iter().enumerate() {
            let Route::Through(outlet) = route else { continue };
            if let (Some(first), [Stream { outlet: same, .. }]) = (&writers[0], &streams[..])
                && *same == outlet
            {
                writers[number] = Some(first.try_clone()?);
                continue;
            }
            let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
            fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
            let tag = if self.tagged { format!("[{rank}] ") } else { String::new() };
            streams.push(Stream { pipe: reader.into(), tag, lines: Lines::default(), outlet, paused: false });
            writers[number] = Some(writer);
        }
        let [stdout, stderr] = writers.map(|writer| writer.map_or(Stdio::inherit(), Stdio::from));
        command.stdout(stdout).stderr(stderr);
        Ok(streams)
    }

    /// Reads the streams of a rank that was started.
    pub(crate) fn adopt(&mut self, streams: Vec<Stream>, events: &Events) -> io::Result<()> {
        for stream in streams {
            events.await_input(&stream.pipe, Token::Stream(self.streams.len()))?;
            self.streams.push(Some(stream));
        }
        Ok(())
    }

    /// When an unfinished line has to be shown.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.streams.iter().flatten().filter_map(|stream| stream.lines.deadline()).min()
    }

    /// Shows unfinished lines whose time has come.
    pub(crate) fn flush(&mut self, now: Instant) {
        for (number, stream) in self.streams.iter_mut().enumerate() {
            if let Some(stream) = stream {
                stream.lines.flush(number, &stream.tag, now, false, &mut self.outlets[stream.outlet].sink);
            }
        }
    }

    /// Reads what stream `number` has, until its outlet is full.
    pub(crate) fn read(&mut self, number: usize, events: &Events) -> io::Result<()> {
        let Some(stream) = &mut self.streams[number] else { return Ok(()) };
        let outlet = &mut self.outlets[stream.outlet];
        let mut bytes = [0; 16 * 1024];
        loop {
            if outlet.waiting() >= HIGH_WATER {
                events.forget(&stream.pipe);
                stream.paused = true;
                self.pauses += 1;
                return Ok(());
            }
            match stream.pipe.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => {
                    stream.lines.push(number, &stream.tag, &bytes[..count], Instant::now(), &mut outlet.sink);
                    outlet.write(false);
                    if outlet.broken {
                        self.broken = true;
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.close(number, events);
        Ok(())
    }

    /// Writes what can be written, and arranges to hear when more can.
    pub(crate) fn write(&mut self, events: &Events) -> io::Result<()> {
        for number in 0..self.outlets.len() {
            self.outlets[number].write(false);
            if self.outlets[number].broken {
                // As without mpiexec: who writes on gets SIGPIPE.
                for stream in 0..self.streams.len() {
                    if self.streams[stream].as_ref().is_some_and(|stream| stream.outlet == number) {
                        self.broken = true;
                        self.close(stream, events);
                    }
                }
            }
            match self.outlets[number].waiting() {
                0 => self.resume(number, events)?,
                _ => events.await_outlet(number)?,
            }
        }
        Ok(())
    }

    /// All ranks have ended: everything they wrote is written.
    pub(crate) fn drain(&mut self, events: &Events) -> io::Result<()> {
        for number in 0..self.streams.len() {
            while self.streams[number].is_some() {
                let paused_before = self.pauses;
                self.read(number, events)?;
                self.outlets.iter_mut().for_each(|outlet| outlet.write(true));
                if self.pauses == paused_before {
                    // Nothing more there; somebody outside the ranks' groups may hold it open, who is not waited for.
                    self.close(number, events);
                }
            }
        }
        self.outlets.iter_mut().for_each(|outlet| outlet.write(true));
        Ok(())
    }

    fn resume(&mut self, outlet: usize, events: &Events) -> io::Result<()> {
        for (number, stream) in self.streams.iter_mut().enumerate() {
            if let Some(stream) = stream.as_mut().filter(|stream| stream.paused && stream.outlet == outlet) {
                stream.paused = false;
                events.await_input(&stream.pipe, Token::Stream(number))?;
            }
        }
        Ok(())
    }

    fn close(&mut self, number: usize, events: &Events) {
        if let Some(mut stream) = self.streams[number].take() {
            events.forget(&stream.pipe);
            stream.lines.flush(
                number,
                &stream.tag,
                Instant::now(),
                true,
                &mut self.outlets[stream.outlet].sink,
            );
        }
    }
}
