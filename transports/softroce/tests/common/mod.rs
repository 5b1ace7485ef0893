//! A network of devices in virtual time: datagrams are lost, doubled, delayed and thereby reordered, from one seed.

#![allow(dead_code, unreachable_pub, reason = "shared by test files, each of which uses its part")]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use weft_api::verbs::*;
use weft_sim::Random;
use weft_softroce::{Device, Fault, Memory};

/// Where the memory of every device begins.
pub const BASE: u64 = 0x7000_0000_0000;

/// Bytes behind addresses from [`BASE`] on.
#[derive(Debug)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    fn at(address: u64, length: usize) -> std::ops::Range<usize> {
        let start = (address - BASE) as usize;
        start..start + length
    }
}

impl Memory for Bytes {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        into.copy_from_slice(self.0.get(Bytes::at(address, into.len())).ok_or(Fault)?);
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.0.get_mut(Bytes::at(address, bytes.len())).ok_or(Fault)?.copy_from_slice(bytes);
        Ok(())
    }

    fn update(&mut self, address: u64, change: impl Fn(u64) -> u64) -> Result<u64, Fault> {
        let place = self.0.get_mut(Bytes::at(address, 8)).ok_or(Fault)?;
        let old = u64::from_ne_bytes((&*place).try_into().unwrap());
        place.copy_from_slice(&change(old).to_ne_bytes());
        Ok(old)
    }
}

/// What the network does to a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub loss: f64,
    pub doubling: f64,
    pub damage: f64,
    /// Longest delay in nanoseconds; the shortest is 500.
    pub delay: u64,
}

impl Faults {
    pub const NONE: Faults = Faults { loss: 0.0, doubling: 0.0, damage: 0.0, delay: 1 };
}

pub struct Network {
    pub devices: Vec<Device<Bytes>>,
    /// Where each device is.
    at: fn(usize) -> SocketAddr,
    pub now: Nanos,
    pub random: Random,
    pub faults: Faults,
    /// Devices that say and hear nothing any more.
    pub dead: Vec<usize>,
    flying: BTreeMap<(Nanos, u64), (usize, usize, Vec<u8>)>,
    serial: u64,
    pub packets: u64,
    /// Of these, negative acknowledgements that say that nothing is posted.
    pub not_ready: u64,
    /// A way into each device that carries one datagram in so many nanoseconds and has room for so many that wait; what finds none is
    /// lost.
    pub narrow: Option<(Nanos, u64)>,
    /// By device: when its narrow way has carried what waits.
    free_at: Vec<Nanos>,
    /// What left the devices, if it shall be written down.
    pub record: Option<weft_softroce::Capture<Vec<u8>>>,
}

pub fn address(device: usize) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 7, 0, 1 + device as u8), 4791))
}

/// Where a device is in a network of IPv6.
pub fn address_v6(device: usize) -> SocketAddr {
    SocketAddr::from((Ipv6Addr::new(0xfd00, 7, 0, 0, 0, 0, 0, 1 + device as u16), 4791))
}

impl Network {
    pub fn new(devices: usize, memory: usize, seed: u64, faults: Faults) -> Network {
        Network::over(address, devices, memory, seed, faults)
    }

    /// As [`Network::new`], with devices at other addresses.
    pub fn over(
        at: fn(usize) -> SocketAddr,
        devices: usize,
        memory: usize,
        seed: u64,
        faults: Faults,
    ) -> Network {
        Network {
            devices: (0..devices).map(|i| Device::new(at(i), Bytes(vec![0; memory]))).collect(),
            at,
            now: 0,
            random: Random::new(seed),
            faults,
            dead: Vec::new(),
            flying: BTreeMap::new(),
            serial: 0,
            packets: 0,
            not_ready: 0,
            narrow: None,
            free_at: vec![0; devices],
            record: None,
        }
    }

    /// One event: everything that can leave leaves; then the next datagram arrives or the next clock rings. False when nothing
    /// is left.
    pub fn step(&mut self) -> bool {
        let mut datagram = Vec::new();
        for from in 0..self.devices.len() {
            while let Some(to) = self.devices[from].transmit(self.now, &mut datagram) {
                self.packets += 1;
                // An acknowledgement's syndrome follows the base header (IBTA, volume 1, section 9.7.5.1.2).
                self.not_ready += u64::from(datagram[0] == 0x11 && datagram[12] >> 5 == 0b001);
                if let Some(record) = &mut self.record {
                    record
                        .write(self.now, (self.at)(from), to, &datagram)
                        .expect("a vector takes everything");
                }
                let to =
                    (0..self.devices.len()).find(|&i| (self.at)(i) == to).expect("a device of this network");
                self.fly(from, to, &datagram);
            }
        }
        let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
        let clock = self.devices.iter().filter_map(Device::deadline).min();
        let Some(next) = [arrival, clock].into_iter().flatten().min() else { return false };
        self.now = self.now.max(next);
        if arrival == Some(next) {
            let (_, (from, to, datagram)) = self.flying.pop_first().expect("it was just seen");
            if !self.dead.contains(&from) && !self.dead.contains(&to) {
                self.devices[to].receive(self.now, (self.at)(from), 0, &datagram);
            }
        } else {
            for device in &mut self.devices {
                device.tick(self.now);
            }
        }
        true
    }

    fn fly(&mut self, from: usize, to: usize, datagram: &[u8]) {
        let copies = 1 + usize::from(self.random.chance(self.faults.doubling));
        for _ in 0..copies {
            if self.random.chance(self.faults.loss) {
                continue;
            }
            let mut datagram = datagram.to_vec();
            if self.random.chance(self.faults.damage) {
                let bit = self.random.below(datagram.len() as u64 * 8) as usize;
                datagram[bit / 8] ^= 1 << (bit % 8);
            }
            let mut at = self.now + 500 + self.random.below(self.faults.delay);
            if let Some((each, room)) = self.narrow {
                let begins = self.free_at[to].max(self.now);
                if (begins - self.now) / each >= room {
                    continue;
                }
                self.free_at[to] = begins + each;
                at += begins + each - self.now;
            }
            self.serial += 1;
            self.flying.insert((at, self.serial), (from, to, datagram));
        }
    }

    /// Steps until nothing moves by itself.
    pub fn settle(&mut self) {
        let mut steps = 0_u64;
        while self.step() {
            steps += 1;
            assert!(steps < 5_000_000, "the network does not come to rest");
        }
    }
}

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct End {
    pub device: usize,
    pub pair: QueuePairNumber,
    pub sends: CompletionQueueId,
    pub receives: CompletionQueueId,
    pub keys: RegionKeys,
}

pub struct Plan {
    pub mtu: u32,
    pub first_packets: [u32; 2],
    pub sending: Sending,
    pub max_send: u32,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            mtu: 1024,
            first_packets: [0xff_fff0, 7],
            sending: Sending { first_packet: 0, timeout: 4, retries: 7, not_ready_retries: 7, max_reads: 4 },
            max_send: 256,
        }
    }
}

/// Connects two devices, each with all its memory registered.
pub fn connect(network: &mut Network, devices: [usize; 2], plan: &Plan) -> [End; 2] {
    let mut ends = devices.map(|device| {
        let d = &mut network.devices[device];
        let domain = d.make_domain();
        let bytes = d.memory().0.len() as u64;
        let keys = d.register(domain, BASE, bytes, Access::ALL).unwrap();
        let (sends, receives) = (d.make_completion_queue(4096), d.make_completion_queue(4096));
        let pair = d
            .make_queue_pair(QueuePairPlan {
                domain,
                service: Service::ReliableConnection,
                send_queue: sends,
                receive_queue: receives,
                shared_receive_queue: None,
                max_send: plan.max_send,
                max_receive: 256,
                qkey: 0,
            })
            .unwrap();
        End { device, pair, sends, receives, keys }
    });
    reconnect(network, ends, plan);
    ends.sort_by_key(|end| end.device);
    ends
}

/// Brings both ends of a connection that was made, or reset, to *ready to send*.
pub fn reconnect(network: &mut Network, ends: [End; 2], plan: &Plan) {
    for me in 0..2 {
        let (own, other) = (ends[me], ends[1 - me]);
        let d = &mut network.devices[own.device];
        d.initialise(own.pair).unwrap();
        let remote = Remote {
            address: (network.at)(other.device).into(),
            by: 0,
            queue_pair: other.pair,
            first_packet: plan.first_packets[1 - me],
            mtu: plan.mtu,
            max_incoming_reads: plan.sending.max_reads,
            not_ready_code: 1,
            access: Access::ALL,
        };
        d.ready_to_receive(own.pair, Some(remote)).unwrap();
        d.ready_to_send(own.pair, Some(Sending { first_packet: plan.first_packets[me], ..plan.sending }))
            .unwrap();
    }
}
