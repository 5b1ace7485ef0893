//! The routes of a device: what is known of each way, what is being asked, and what is done without an answer.
//!
//! A way is asked for when it is first to be used, and nothing leaves by it before the answer, or the end of a bounded time:
//! then it goes by the defaults, as without a manager. An answer is kept until a connection fails. Then a subnet manager, which
//! may lead round a dead switch by now, is asked again, and what it said before counts if it does not answer at once.

use crate::choice::Choice;
use crate::manager::manager;
use crate::resolver::{Outcome, Place, Question, Resolver};
use crate::route::{Answer, Attributes, PortFacts, RouteWish, check, decide};
use crate::survey::Link;
use crate::sys::cm::{AF_IB, RDMA_PS_IB, RDMA_PS_TCP, sockaddr_ib};
use libc::{sockaddr_in, sockaddr_in6, sockaddr_storage};
use std::collections::HashMap;
use std::mem::zeroed;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_api::sleepers::Sleepers;
use weft_api::verbs::{DeviceAddress, Nanos, Route};
use weft_types::params::Routes as Asking;
use weft_types::{Error, ErrorClass, Result};

/// How long an answer is waited for: on Ethernet the kernel gives it, and asks the network for a neighbour at most; in a subnet
/// one manager may have the questions of a whole job to answer.
const ETHERNET_WAIT: Duration = Duration::from_secs(1);
const INFINIBAND_WAIT: Duration = Duration::from_secs(8);
/// Where there is an older answer.
const RENEWAL_WAIT: Duration = Duration::from_millis(500);
/// What the thread that asks may need beyond its time.
const GRACE: Nanos = 250_000_000;
/// How long a manager that has let time run out, and has never answered, is not asked again.
const SILENCE: Nanos = 60_000_000_000;

/// A peer's address, and by which of the own ones it is reached.
pub(crate) type Key = (DeviceAddress, u8);

/// Who says what belongs to a way.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Manager(Answer),
    /// Nobody, and why.
    Nobody(String),
}

#[derive(Debug)]
struct Entry {
    attributes: Attributes,
    /// `None`: nobody has said anything yet.
    source: Option<Source>,
    /// The question that is open, and when it is given up.
    open: Option<(u64, Nanos)>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Routes {
    wish: RouteWish,
    port: PortFacts,
    place: Place,
    /// The own addresses, as the manager knows them.
    names: Vec<sockaddr_storage>,
    /// The partition and the interface that they belong to.
    partition: u16,
    interfaces: Vec<u32>,
    /// Who is asked, or why nobody is.
    resolver: std::result::Result<Resolver, String>,
    entries: HashMap<Key, Entry>,
    questions: HashMap<u64, Key>,
    next: u64,
    has_answered: bool,
    /// Until when the manager is taken for dead.
    dead_until: Nanos,
    /// Ways that were in use before their answer, or by an older one.
    changed: Vec<Key>,
    has_told: bool,
}

impl Routes {
    /// Of a port that was opened.
    ///
    /// # Errors
    /// What was set cannot be had: a service level that the link has not, or routes where nobody can be asked.
    pub(crate) fn new(
        choice: &Choice,
        wish: RouteWish,
        port: PortFacts,
        sleepers: &Arc<Sleepers>,
    ) -> Result<Routes> {
        let failed = |why: String| Error::new(ErrorClass::OTHER, why);
        check(&wish, choice.link).map_err(failed)?;
        let place = Place { device: choice.device.clone(), port: choice.port };
        let resolver = match wish.ask {
            Asking::Off => Err("WEFT_ROUTES=no".to_owned()),
            Asking::Auto | Asking::Require => manager().map_err(str::to_owned).and_then(|manager| {
                Resolver::new(manager, place.clone(), Arc::clone(sleepers)).map_err(|error| error.to_string())
            }),
        };
        if let (Asking::Require, Err(why)) = (wish.ask, &resolver) {
            return Err(failed(format!(
                "WEFT_ROUTES=require, and the connection manager cannot be asked for routes: {why}. WEFT_ROUTES=auto does without"
            )));
        }
        let folder = format!("/sys/class/infiniband/{}/ports/{}", choice.device, choice.port);
        let interfaces: Vec<u32> =
            choice.gids.iter().map(|gid| interface(&folder, gid.index).unwrap_or(0)).collect();
        let partition = choice.partition.key;
        let own = choice.gids.iter().zip(&interfaces);
        let names = own.map(|(gid, &interface)| name(choice.link, gid.address.address, partition, interface));
        Ok(Routes {
            wish,
            port,
            place,
            names: names.collect(),
            partition,
            interfaces,
            resolver,
            entries: HashMap::new(),
            questions: HashMap::new(),
            next: 0,
            has_answered: false,
            dead_until: 0,
            changed: Vec::new(),
            has_told: false,
        })
    }

    /// What is known of a way, which is asked for where it was not.
    pub(crate) fn route(&mut self, key: Key, now: Nanos) -> Route {
        match self.entries.get(&key) {
            None => self.ask(key, now),
            Some(Entry { open: Some((number, until)), .. }) => {
                let (number, until) = (*number, *until);
                self.take_answers(now);
                if now >= until && self.questions.remove(&number).is_some() {
                    self.settle(key, Outcome::Silent, now);
                }
            }
            Some(_) => {}
        }
        let entry = &self.entries[&key];
        let is_barred = self.wish.ask == Asking::Require && matches!(entry.source, Some(Source::Nobody(_)));
        match entry.open {
            Some(_) => Route::Asked,
            None if is_barred => Route::Barred,
            None => Route::Known { mtu: entry.attributes.mtu },
        }
    }

    /// What packets get by a way, whether it was asked for or not.
    pub(crate) fn attributes(&self, key: Key) -> Attributes {
        self.entries.get(&key).map_or_else(|| decide(None, &self.wish, &self.port), |entry| entry.attributes)
    }

    /// A connection has failed by a way: the manager may say another thing by now. Not on Ethernet, where the kernel looks the
    /// way up whenever a queue pair is opened, unless it had nothing to say.
    pub(crate) fn renew(&mut self, key: Key, now: Nanos) {
        let Some(entry) = self.entries.get(&key) else { return };
        let has_answer = matches!(entry.source, Some(Source::Manager(_)));
        if entry.open.is_none() && !(has_answer && self.port.link == Link::Ethernet) {
            self.ask(key, now);
        }
    }

    /// Ways that lead otherwise than what was sent there before.
    pub(crate) fn take_changed(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.changed)
    }

    /// What belongs to a way, and who says so.
    pub(crate) fn text(&self, key: Key) -> Option<String> {
        let entry = self.entries.get(&key)?;
        Some(match (&entry.source, &self.resolver) {
            (Some(Source::Manager(_)), _) => format!("{}, as the connection manager says", entry.attributes),
            // What is so for all ways stands with the device.
            (Some(Source::Nobody(_)), Err(_)) => format!("{}, without a route", entry.attributes),
            (Some(Source::Nobody(why)), Ok(_)) => format!("{}, without a route: {why}", entry.attributes),
            (None, _) => "the connection manager is asked for the route".to_owned(),
        })
    }

    /// What is so for all ways.
    pub(crate) fn summary(&self) -> String {
        let by_hand = match (self.wish.service_level, self.wish.traffic_class) {
            (None, None) => String::new(),
            (Some(level), None) => format!("; service level {level} for all (WEFT_SERVICE_LEVEL)"),
            (None, Some(class)) => format!("; traffic class {class} for all (WEFT_TRAFFIC_CLASS)"),
            (Some(level), Some(class)) => {
                format!("; service level {level} and traffic class {class} for all")
            }
        };
        match &self.resolver {
            Ok(_) => format!("routes: the connection manager is asked (librdmacm){by_hand}"),
            Err(why) => format!("routes: nobody is asked, {why}{by_hand}"),
        }
    }

    /// Asks, or settles that nobody is.
    fn ask(&mut self, key: Key, now: Nanos) {
        let older = self.entries.remove(&key);
        let known = older.as_ref().is_some_and(|entry| matches!(entry.source, Some(Source::Manager(_))));
        let entry = older.unwrap_or_else(|| Entry {
            attributes: decide(None, &self.wish, &self.port),
            source: None,
            open: None,
        });
        self.entries.insert(key, entry);
        let resolver = match &self.resolver {
            Err(why) => return self.settle(key, Outcome::Unusable(why.clone()), now),
            Ok(_) if now < self.dead_until && self.wish.ask == Asking::Auto => {
                let text = "the connection manager has not answered others".to_owned();
                return self.settle(key, Outcome::Failed(text), now);
            }
            Ok(resolver) => resolver,
        };
        let Some(&from) = self.names.get(usize::from(key.1)) else {
            return self.settle(key, Outcome::Failed("there is no such address here".to_owned()), now);
        };
        let interface = self.interfaces.get(usize::from(key.1)).copied().unwrap_or(0);
        let wait = match (known, self.port.link) {
            (true, _) => RENEWAL_WAIT,
            (false, Link::Ethernet) => ETHERNET_WAIT,
            (false, Link::InfiniBand) => INFINIBAND_WAIT,
        };
        let number = self.next;
        self.next += 1;
        self.questions.insert(number, key);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.open = Some((number, now + wait.as_nanos() as Nanos + GRACE));
        }
        resolver.ask(Question {
            number,
            from,
            to: name(self.port.link, key.0, self.partition, interface),
            space: if self.port.link == Link::InfiniBand { RDMA_PS_IB } else { RDMA_PS_TCP },
            traffic_class: self.wish.traffic_class,
            until: Instant::now() + wait,
        });
    }

    fn take_answers(&mut self, now: Nanos) {
        let Ok(resolver) = &self.resolver else { return };
        for (number, outcome) in resolver.answers() {
            // One that was given up is late.
            if let Some(key) = self.questions.remove(&number) {
                self.settle(key, outcome, now);
            }
        }
    }

    /// A question is over.
    fn settle(&mut self, key: Key, outcome: Outcome, now: Nanos) {
        let (wish, port) = (&self.wish, &self.port);
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.open = None;
        let source = match outcome {
            Outcome::Answered(answer) => {
                self.has_answered = true;
                Source::Manager(answer)
            }
            Outcome::Failed(why) => Source::Nobody(why),
            Outcome::Silent => {
                if !self.has_answered {
                    self.dead_until = now + SILENCE;
                }
                Source::Nobody("the connection manager has not answered in time".to_owned())
            }
            Outcome::Unusable(why) => {
                if self.resolver.is_ok() {
                    self.resolver = Err(why.clone());
                }
                Source::Nobody(why)
            }
        };
        let attributes = match &source {
            Source::Manager(answer) => decide(Some(answer), wish, port),
            Source::Nobody(_) if matches!(entry.source, Some(Source::Manager(_))) => return,
            Source::Nobody(_) => decide(None, wish, port),
        };
        if attributes != entry.attributes {
            self.changed.push(key);
        }
        entry.attributes = attributes;
        if let (Asking::Require, Source::Nobody(why), false) = (wish.ask, &source, self.has_told) {
            self.has_told = true;
            eprintln!(
                "weft: WEFT_ROUTES=require, and there is no route from {} port {} to {}: {why}",
                self.place.device, self.place.port, key.0
            );
        }
        entry.source = Some(source);
    }
}

/// An address as the manager takes it: on Ethernet one of IP, in a subnet a global identifier.
fn name(link: Link, address: DeviceAddress, partition: u16, interface: u32) -> sockaddr_storage {
    // SAFETY: numbers only, for which 0 is a value.
    let mut storage: sockaddr_storage = unsafe { zeroed() };
    let place = &raw mut storage;
    let ip = address.socket.ip();
    match (link, ip) {
        (Link::InfiniBand, ip) => {
            let gid = match ip {
                IpAddr::V4(address) => address.to_ipv6_mapped(),
                IpAddr::V6(address) => address,
            };
            let name = sockaddr_ib {
                sib_family: AF_IB as u16,
                sib_pkey: partition.to_be(),
                sib_flowinfo: 0,
                sib_addr: gid.octets(),
                sib_sid: 0,
                sib_sid_mask: 0,
                sib_scope_id: 0,
            };
            // SAFETY: the storage has room for each kind of address, and their alignment.
            unsafe { place.cast::<sockaddr_ib>().write(name) };
        }
        (Link::Ethernet, IpAddr::V4(address)) => {
            // SAFETY: numbers only, for which 0 is a value.
            let mut name: sockaddr_in = unsafe { zeroed() };
            name.sin_family = libc::AF_INET as u16;
            name.sin_addr.s_addr = u32::from_ne_bytes(address.octets());
            // SAFETY: as above.
            unsafe { place.cast::<sockaddr_in>().write(name) };
        }
        (Link::Ethernet, IpAddr::V6(address)) => {
            // SAFETY: numbers only, for which 0 is a value.
            let mut name: sockaddr_in6 = unsafe { zeroed() };
            name.sin6_family = libc::AF_INET6 as u16;
            name.sin6_addr.s6_addr = address.octets();
            // One of a link alone means nothing without it.
            name.sin6_scope_id = if address.is_unicast_link_local() { interface } else { 0 };
            // SAFETY: as above.
            unsafe { place.cast::<sockaddr_in6>().write(name) };
        }
    }
    storage
}

/// The number of the network interface of an entry of a port's table.
fn interface(folder: &str, index: u8) -> Option<u32> {
    let word = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let interface = word(&format!("{folder}/gid_attrs/ndevs/{index}"))?;
    word(&format!("/sys/class/net/{interface}/ifindex"))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::c_int;

    fn bytes<T>(storage: &sockaddr_storage) -> &T {
        // SAFETY: every kind of address fits the storage, which was written whole.
        unsafe { &*(&raw const *storage).cast() }
    }

    #[test]
    fn addresses_are_named_as_the_manager_knows_them() {
        let v4 = name(Link::Ethernet, "10.0.0.7:4791".parse().unwrap(), 0xffff, 3);
        assert_eq!(c_int::from(v4.ss_family), libc::AF_INET);
        assert_eq!(bytes::<sockaddr_in>(&v4).sin_addr.s_addr.to_ne_bytes(), [10, 0, 0, 7]);
        let link = name(Link::Ethernet, "[fe80::7]:4791".parse().unwrap(), 0xffff, 3);
        assert_eq!(bytes::<sockaddr_in6>(&link).sin6_scope_id, 3, "of that link");
        let wide = name(Link::Ethernet, "[fd00::7]:4791".parse().unwrap(), 0xffff, 3);
        assert_eq!(bytes::<sockaddr_in6>(&wide).sin6_scope_id, 0);
        let subnet = name(Link::InfiniBand, "[fe80::2:c903]:4791@1f".parse().unwrap(), 0x8001, 3);
        let subnet: &sockaddr_ib = bytes(&subnet);
        assert_eq!((c_int::from(subnet.sib_family), subnet.sib_pkey), (AF_IB, 0x8001_u16.to_be()));
        assert_eq!(subnet.sib_addr[..2], [0xfe, 0x80]);
        assert_eq!(subnet.sib_addr[12..], [0, 2, 0xc9, 3]);
    }
}
