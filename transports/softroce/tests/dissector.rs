//! A packet dissector that is not ours reads our traffic as RoCEv2.

mod common;

use common::*;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use weft_api::verbs::*;
use weft_softroce::Capture;

/// Says that the test does nothing, where `ci/lib.sh` counts it.
fn skip(why: &str) {
    println!("skipped: {why}");
    if let Some(path) = std::env::var_os("WEFT_TEST_SKIPS") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(format!("tshark_reads_every_packet: {why}\n").as_bytes()).unwrap();
    }
}

#[test]
fn tshark_reads_every_packet() {
    tshark_reads_every_packet_over(address, "ip.src");
    tshark_reads_every_packet_over(address_v6, "ipv6.src");
}

fn tshark_reads_every_packet_over(at: fn(usize) -> SocketAddr, source: &str) {
    let mut network = Network::over(at, 2, 1 << 16, 1, Faults::NONE);
    let [a, b] = connect(&mut network, [0, 1], &Plan::default());
    let own = [Segment { address: BASE, length: 3000, key: a.keys.local }];
    let word = [Segment { address: BASE, length: 8, key: a.keys.local }];
    let at = RemoteAddress { address: BASE + 4096, key: b.keys.remote };
    let receive = [Segment { address: BASE, length: 3000, key: b.keys.local }];
    network.devices[1].post_receive(b.pair, 1, &receive).unwrap();
    let works = [
        (Work::Write { to: at, immediate: None }, &own),
        (Work::Read { from: at }, &own),
        (Work::FetchAdd { at, add: 1 }, &word),
        (Work::CompareSwap { at, compare: 1, swap: 2 }, &word),
        (Work::Send { immediate: Some(7) }, &own),
    ];
    for (id, (work, segments)) in works.into_iter().enumerate() {
        network.devices[0].post_send(a.pair, &WorkRequest::new(id as u64, work, segments)).unwrap();
    }
    network.record = Some(Capture::new(Vec::new()).unwrap());
    network.settle();
    assert_eq!(network.packets, 16, "no packet more than needed");
    let capture = network.record.take().unwrap().into_inner();

    let Ok(mut tshark) = Command::new("tshark")
        .args(["-r", "-", "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "_ws.malformed", "-Y", source])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
    else {
        return skip("no tshark here (scripts/setup --tests)");
    };
    tshark.stdin.take().unwrap().write_all(&capture).unwrap();
    let output = tshark.wait_with_output().unwrap();
    let mut opcodes: Vec<_> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    opcodes.iter_mut().for_each(|line| *line = line.trim().to_owned());
    opcodes.sort_by_key(|line| line.parse::<u32>().unwrap_or(u32::MAX));
    let expected = [0, 1, 3, 6, 7, 8, 12, 13, 14, 15, 17, 17, 18, 18, 19, 20];
    assert_eq!(opcodes, expected.map(|code: u32| code.to_string()));
}
