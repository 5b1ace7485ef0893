//! The described providers end the process when something is done that the manual forbids: each rule is broken once, in a process of
//! its own, by calls as `weft-ofi` makes them. Without this, the suite over them (`tests/described.rs`) would show little.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::ptr::{null, null_mut};
use weft_ofi::sys::*;

/// Tells the process which rule to break.
const RULE: &str = "DESCRIBED_RULE";

type Getinfo =
    unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const fi_info, *mut *mut fi_info) -> c_int;
type Dupinfo = unsafe extern "C" fn(*const fi_info) -> *mut fi_info;
type Fabric = unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;

/// An endpoint that talks to itself, and what it is made of.
struct Opened {
    fabric: *mut fid_fabric,
    domain: *mut fid_domain,
    addresses: *mut fid_av,
    queue: *mut fid_cq,
    endpoint: *mut fid_ep,
    own: u64,
}

fn base<T>(object: *mut T) -> (*mut fid, &'static fi_ops) {
    // SAFETY: an open object begins with its base.
    unsafe { (object.cast(), &*(*object.cast::<fid>()).ops) }
}

fn close<T>(object: *mut T) -> c_int {
    let (fid, ops) = base(object);
    // SAFETY: an object of the library.
    unsafe { ops.close.unwrap()(fid) }
}

fn bind<T, U>(object: *mut T, other: *mut U) {
    let (fid, ops) = base(object);
    // SAFETY: open objects.
    assert_eq!(unsafe { ops.bind.unwrap()(fid, other.cast(), 0) }, 0);
}

fn enable<T>(object: *mut T) {
    let (fid, ops) = base(object);
    // SAFETY: an open object.
    assert_eq!(unsafe { ops.control.unwrap()(fid, FI_ENABLE, null_mut()) }, 0);
}

impl Opened {
    fn open(provider: &str, caps: u64) -> Opened {
        let own = std::env::current_exe().unwrap();
        let file = own.parent().unwrap().with_file_name("examples").join("libdescribed_fabric.so");
        let file = CString::new(file.to_str().unwrap()).unwrap();
        // SAFETY: a library of ours with functions of these types, called as the manual has it.
        unsafe {
            let handle = libc::dlopen(file.as_ptr(), libc::RTLD_NOW);
            assert!(!handle.is_null(), "{:?}", CStr::from_ptr(libc::dlerror()));
            let symbol = |name: &CStr| libc::dlsym(handle, name.as_ptr());
            let getinfo = std::mem::transmute::<*mut c_void, Getinfo>(symbol(c"fi_getinfo"));
            let dupinfo = std::mem::transmute::<*mut c_void, Dupinfo>(symbol(c"fi_dupinfo"));
            let fabric_of = std::mem::transmute::<*mut c_void, Fabric>(symbol(c"fi_fabric"));
            let hints = dupinfo(null());
            ((*hints).caps, (*hints).mode) = (caps, u64::MAX);
            (*(*hints).domain_attr).mr_mode = c_int::MAX;
            let name = CString::new(provider).unwrap();
            (*(*hints).fabric_attr).prov_name = libc::strdup(name.as_ptr());
            let mut info = null_mut();
            assert_eq!(getinfo(version(1, 17), null(), null(), 0, hints, &mut info), 0);
            let (mut fabric, mut domain, mut addresses) = (null_mut(), null_mut(), null_mut());
            let (mut queue, mut endpoint, mut own) = (null_mut(), null_mut(), 0);
            assert_eq!(fabric_of((*info).fabric_attr, &mut fabric, null_mut()), 0);
            assert_eq!((*(*fabric).ops).domain.unwrap()(fabric, info, &mut domain, null_mut()), 0);
            let tables = &*(*domain).ops;
            let mut attributes: fi_av_attr = std::mem::zeroed();
            attributes.r#type = (*(*info).domain_attr).av_type;
            assert_eq!(tables.av_open.unwrap()(domain, &mut attributes, &mut addresses, null_mut()), 0);
            let mut attributes: fi_cq_attr = std::mem::zeroed();
            (attributes.size, attributes.format) = (64, FI_CQ_FORMAT_MSG);
            assert_eq!(tables.cq_open.unwrap()(domain, &mut attributes, &mut queue, null_mut()), 0);
            assert_eq!(tables.endpoint.unwrap()(domain, info, &mut endpoint, null_mut()), 0);
            bind(endpoint, addresses);
            bind(endpoint, queue);
            enable(endpoint);
            let (mut name, mut length) = ([0_u8; 64], 64);
            assert_eq!(
                (*(*endpoint).cm).getname.unwrap()(endpoint.cast(), name.as_mut_ptr().cast(), &mut length),
                0
            );
            let insert = (*(*addresses).ops).insert.unwrap();
            assert_eq!(insert(addresses, name.as_ptr().cast(), 1, &mut own, 0, null_mut()), 1);
            Opened { fabric, domain, addresses, queue, endpoint, own }
        }
    }

    fn register(&self, memory: &[u8], rights: u64, key: u64) -> *mut fid_mr {
        let mut region = null_mut();
        // SAFETY: an open domain and memory that is there.
        unsafe {
            let register = (*(*self.domain).mr).reg.unwrap();
            let start = memory.as_ptr().cast();
            let result =
                register(self.domain.cast(), start, memory.len(), rights, 0, key, 0, &mut region, null_mut());
            assert_eq!(result, 0);
        }
        region
    }

    fn send(&self, message: &[u8], descriptor: *mut c_void, context: *mut fi_context2) -> isize {
        // SAFETY: an enabled endpoint; the message and the context stay until the process ends.
        unsafe {
            let send = (*(*self.endpoint).msg).send.unwrap();
            send(self.endpoint, message.as_ptr().cast(), message.len(), descriptor, self.own, context.cast())
        }
    }

    fn receive(&self, room: &mut [u8], context: *mut fi_context2) {
        // SAFETY: an enabled endpoint; the room and the context stay until the process ends.
        unsafe {
            let recv = (*(*self.endpoint).msg).recv.unwrap();
            let room = (room.as_mut_ptr().cast(), room.len());
            assert_eq!(recv(self.endpoint, room.0, room.1, null_mut(), FI_ADDR_UNSPEC, context.cast()), 0);
        }
    }

    fn look(&self) {
        let mut entries = [fi_cq_msg_entry { op_context: null_mut(), flags: 0, len: 0 }; 4];
        // SAFETY: an open queue and as much room as is said.
        unsafe { (*(*self.queue).ops).read.unwrap()(self.queue, entries.as_mut_ptr().cast(), 4) };
    }
}

const MESSAGES: u64 = FI_MSG | FI_SEND | FI_RECV;

/// What is done, and a word of what is said about it.
const RULES: &[(&str, fn())] = &[
    ("a domain is closed while", || {
        close(Opened::open("opx", MESSAGES).domain);
    }),
    ("a fabric is closed while", || {
        close(Opened::open("opx", MESSAGES).fabric);
    }),
    ("an endpoint is used after it was closed", || {
        let it = Opened::open("opx", MESSAGES);
        close(it.endpoint);
        it.send(b"word", null_mut(), null_mut());
    }),
    ("an operation has no context", || {
        Opened::open("opx", MESSAGES).send(b"word", null_mut(), null_mut());
    }),
    ("a context is used again", || {
        let it = Opened::open("opx", MESSAGES);
        let (mut room, mut context) = ([0_u8; 8], fi_context2 { internal: [null_mut(); 8] });
        it.receive(&mut room, &raw mut context);
        it.receive(&mut room, &raw mut context);
    }),
    ("a context was touched", || {
        let it = Opened::open("opx", MESSAGES);
        let [mut context, mut other] = [fi_context2 { internal: [null_mut(); 8] }; 2];
        it.receive(&mut [0_u8; 8], &raw mut context);
        // SAFETY: a variable of this function, whose last word is written.
        unsafe { (&raw mut context).cast::<u64>().add(7).write(1) };
        it.send(b"word", null_mut(), &raw mut other);
        (0..10).for_each(|_| it.look());
    }),
    ("meets a receive of 3", || {
        let it = Opened::open("cxi", MESSAGES);
        it.receive(&mut [0_u8; 3], null_mut());
        it.send(b"word", null_mut(), null_mut());
        (0..10).for_each(|_| it.look());
    }),
    ("without the descriptor", || {
        Opened::open("efa", MESSAGES).send(b"word", null_mut(), null_mut());
    }),
    ("outside of its region", || {
        let it = Opened::open("efa", MESSAGES);
        let memory = [0_u8; 64];
        let region = it.register(&memory[..32], FI_SEND, 1);
        // SAFETY: an open region.
        it.send(&memory[16..48], unsafe { (*region).mem_desc }, null_mut());
    }),
    ("and was registered for", || {
        let it = Opened::open("efa", MESSAGES);
        let region = it.register(b"word", FI_RECV, 1);
        // SAFETY: an open region.
        it.send(b"word", unsafe { (*region).mem_desc }, null_mut());
    }),
    ("without the descriptor of an open region", || {
        let it = Opened::open("efa", MESSAGES);
        let memory = *b"word";
        let region = it.register(&memory, FI_SEND, 1);
        close(region);
        it.send(&memory, region.cast(), null_mut());
    }),
    ("before it was bound to an endpoint and enabled", || {
        let it = Opened::open("mean", MESSAGES);
        let memory = *b"word";
        let region = it.register(&memory, FI_SEND, 1);
        it.send(&memory, region.cast(), null_mut());
    }),
    ("and keys have 4 bytes", || {
        Opened::open("cxi", MESSAGES).register(b"word", FI_READ, 1 << 32);
    }),
    ("while another region has it", || {
        let it = Opened::open("cxi", MESSAGES);
        it.register(b"word", FI_READ, 7);
        it.register(b"word", FI_READ, 7);
    }),
    ("an endpoint is closed while", || {
        let it = Opened::open("cxi", MESSAGES);
        bind(it.register(b"word", FI_READ, 7), it.endpoint);
        close(it.endpoint);
    }),
    ("193 bytes are injected", || {
        let it = Opened::open("cxi", MESSAGES);
        // SAFETY: an enabled endpoint.
        unsafe {
            (*(*it.endpoint).msg).inject.unwrap()(it.endpoint, [0_u8; 193].as_ptr().cast(), 193, it.own)
        };
    }),
    ("was not asked for", || {
        Opened::open("opx", FI_TAGGED | FI_SEND | FI_RECV).send(b"word", null_mut(), null_mut());
    }),
    ("after it was removed", || {
        let it = Opened::open("cxi", MESSAGES);
        let mut own = it.own;
        // SAFETY: an open address vector and an address in it.
        unsafe { (*(*it.addresses).ops).remove.unwrap()(it.addresses, &mut own, 1, 0) };
        it.send(b"word", null_mut(), null_mut());
    }),
    ("of at most 2048", || {
        Opened::open("mean", MESSAGES).send(&[0; 2049], null_mut(), null_mut());
    }),
];

#[test]
fn every_rule_that_is_broken_is_named() {
    if let Ok(rule) = std::env::var(RULE) {
        RULES[rule.parse::<usize>().unwrap()].1();
        return;
    }
    for (at, (word, _)) in RULES.iter().enumerate() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "every_rule_that_is_broken_is_named", "--nocapture"])
            .env(RULE, at.to_string())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.signal(), Some(libc::SIGABRT), "{word}: {said}");
        assert!(said.contains("described fabric: ") && said.contains(word), "{word}: {said}");
    }
}
