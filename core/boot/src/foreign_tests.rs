//! Joining against servers that follow a script, one thread each.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use super::*;

/// Serves `answers` over a socket: each waits for its question to have arrived as a whole.
fn scripted(answers: Vec<(&'static str, String)>) -> (UnixStream, thread::JoinHandle<()>) {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    ours.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
    theirs.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
    let server = thread::spawn(move || {
        let mut socket = ours;
        for (question, answer) in answers {
            let mut heard = vec![0; question.len()];
            socket.read_exact(&mut heard).expect("a question");
            assert_eq!(String::from_utf8_lossy(&heard), question);
            socket.write_all(answer.as_bytes()).expect("an answer");
        }
    });
    (theirs, server)
}

fn frame(body: &str) -> String {
    format!("{:>6}{body}", body.len())
}

/// A frame as a question; leaked, since questions are compared as `'static` text.
fn asked(body: &str) -> &'static str {
    Box::leak(frame(body).into_boxed_str())
}

#[test]
fn a_server_that_wants_pmi_2_gets_it() {
    let (socket, server) = scripted(vec![
        (
            "cmd=init pmi_version=1 pmi_subversion=1\n",
            "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=-1\n".into(),
        ),
        (
            "cmd=init pmi_version=2 pmi_subversion=0\n",
            "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n".into(),
        ),
        (
            asked("cmd=fullinit;pmijobid=7.0;pmirank=0;threaded=FALSE;"),
            frame(
                "cmd=fullinit-response;pmi-version=2;pmi-subversion=0;rank=0;size=1;appnum=0;debugged=FALSE;pmiverbose=FALSE;rc=0;",
            ),
        ),
        (asked("cmd=job-getid;"), frame("cmd=job-getid-response;jobid=7.0;rc=0;")),
        (
            asked("cmd=info-getjobattr;key=universeSize;"),
            frame("cmd=info-getjobattr-response;found=TRUE;value=4;rc=0;"),
        ),
        (
            asked("cmd=info-getjobattr;key=PMI_process_mapping;"),
            frame("cmd=info-getjobattr-response;found=FALSE;rc=0;"),
        ),
        (asked("cmd=name-lookup;name=s;"), frame("cmd=name-lookup-response;rc=1;errmsg=no;;such name;")),
        (asked("cmd=finalize;"), frame("cmd=finalize-response;rc=0;")),
    ]);
    let number = LauncherSocket::new(socket.as_raw_fd());
    let (job, mut launcher) = join_as(number, Some(0), None, "7.0").expect("joined");
    assert_eq!((job.rank, job.size, job.launcher), (0, 1, LauncherKind::Pmi2));
    assert_eq!((job.universe_size, job.appnum, job.job_id.as_str()), (Some(4), Some(0), "7.0"));
    let refused = launcher.lookup("s").expect_err("no such name");
    assert_eq!(refused.class(), ErrorClass::NAME);
    assert!(refused.text().contains("no;such name"), "{refused}");
    launcher.finalize().expect("good-bye");
    server.join().expect("the script was followed");
}

#[test]
fn a_server_that_talks_nonsense_is_an_error() {
    for nonsense in ["hello\n", "cmd=barrier_out\n", "cmd=response_to_init pmi_version=1 rc=0\ncmd=moon\n"] {
        let (socket, server) = scripted(vec![("cmd=init pmi_version=1 pmi_subversion=1\n", nonsense.into())]);
        let number = LauncherSocket::new(socket.as_raw_fd());
        let refused = join_as(number, Some(0), Some(1), "").err().expect("refused");
        assert_eq!(refused.class(), ErrorClass::OTHER);
        assert!(refused.text().contains("launcher"), "{refused}");
        server.join().expect("the script was followed");
    }
}

#[test]
fn a_launcher_that_goes_away_is_an_error() {
    let (socket, server) = scripted(Vec::new());
    server.join().expect("gone");
    let refused =
        join_as(LauncherSocket::new(socket.as_raw_fd()), Some(0), Some(1), "").err().expect("refused");
    assert!(refused.text().contains("the launcher has ended"), "{refused}");
}

#[test]
fn an_abort_needs_no_conversation() {
    let (mut ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    ours.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
    let aborter = crate::Aborter::weft(LauncherSocket::new(theirs.as_raw_fd()));
    thread::spawn(move || aborter.abort(3, "two words")).join().expect("aborted");
    let mut heard = [0; 64];
    let count = ours.read(&mut heard).expect("an abort");
    assert_eq!(&heard[..count], b"cmd=abort exitcode=3 weft_message=two%20words\n");
}
