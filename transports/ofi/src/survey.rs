//! What the library offers, as data, and the description behind a chosen offer.

use crate::library::{InfoList, Library, library};
use crate::offer::{Carrier, Nic, Offer};
use crate::select::{self, Choice, MODES, MR_MODES, REMOTE_MEMORY, Wanted, Why};
use crate::sys::*;
use std::ffi::{CStr, CString, c_char};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::null_mut;
use weft_types::{Error, ErrorClass, Result};

/// What the library offers to processes like this one, and what it is.
///
/// # Errors
/// There is no library, or it failed.
pub fn offers() -> Result<(Vec<Offer>, String)> {
    let library = library()?;
    Ok((ask(library)?.iter().map(describe).collect(), library.to_string()))
}

/// Everything that could carry messages, with all its capabilities.
fn ask(library: &'static Library) -> Result<InfoList> {
    let mut hints = library.blank()?;
    fill_hints(&mut hints, 0);
    library.offers(&hints)
}

fn fill_hints(hints: &mut InfoList, caps: u64) {
    // SAFETY: a blank description has all its parts.
    unsafe {
        let info = &mut *hints.first();
        info.caps = caps;
        info.mode = MODES;
        (*info.ep_attr).r#type = FI_EP_RDM;
        (*info.domain_attr).mr_mode = MR_MODES;
        (*info.domain_attr).threading = FI_THREAD_DOMAIN;
    }
}

/// # Safety
/// Null or a C string.
unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: a C string by contract.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

pub(crate) fn describe(info: &fi_info) -> Offer {
    // SAFETY: descriptions of the library have all parts but, at times, the device; its parts may be missing too. Texts are C
    // strings or null; an address has as many bytes as it says.
    unsafe {
        let (endpoint, domain, fabric) = (&*info.ep_attr, &*info.domain_attr, &*info.fabric_attr);
        let (tx, rx) = (&*info.tx_attr, &*info.rx_attr);
        let address = if info.src_addr.is_null() {
            &[][..]
        } else {
            std::slice::from_raw_parts(info.src_addr.cast::<u8>(), info.src_addrlen)
        };
        let nic = info.nic.as_ref().map_or_else(Nic::default, |nic| {
            let bus = nic.bus_attr.as_ref();
            let link = nic.link_attr.as_ref();
            Nic {
                on_bus: bus.is_some_and(|bus| bus.bus_type == FI_BUS_PCI),
                speed: link.map_or(0, |link| link.speed),
                down: link.is_some_and(|link| link.state == FI_LINK_DOWN),
            }
        });
        Offer {
            provider: text(fabric.prov_name),
            domain: text(domain.name),
            fabric: text(fabric.name),
            caps: info.caps,
            mode: info.mode | tx.mode | rx.mode | domain.mode,
            mr_mode: select::memory_needs(domain.mr_mode),
            protocol: endpoint.protocol,
            addr_format: info.addr_format,
            ip: ip_of(info.addr_format, address),
            max_msg_size: endpoint.max_msg_size,
            inject_size: tx.inject_size,
            tx_size: tx.size,
            rx_size: rx.size,
            runs: tx.iov_limit.min(tx.rma_iov_limit),
            msg_order: tx.msg_order & rx.msg_order,
            data_progress: domain.data_progress,
            resource_mgmt: domain.resource_mgmt,
            mr_key_size: domain.mr_key_size,
            max_ep_tx_ctx: domain.max_ep_tx_ctx,
            ep_cnt: domain.ep_cnt,
            // Asked when it is opened: see `find_again`.
            tells_delivery: false,
            nic,
        }
    }
}

/// The address in a `sockaddr`.
fn ip_of(format: u32, bytes: &[u8]) -> Option<IpAddr> {
    match format {
        FI_SOCKADDR_IN => bytes.get(4..8).map(|four| {
            let four: [u8; 4] = four.try_into().expect("four bytes");
            IpAddr::V4(Ipv4Addr::from(four))
        }),
        FI_SOCKADDR_IN6 => bytes.get(8..24).map(|sixteen| {
            let sixteen: [u8; 16] = sixteen.try_into().expect("sixteen bytes");
            IpAddr::V6(Ipv6Addr::from(sixteen))
        }),
        _ => None,
    }
}

/// A text that the library will free.
fn owned_text(text: &str) -> *mut c_char {
    let Ok(text) = CString::new(text) else { return null_mut() };
    // SAFETY: a C string.
    unsafe { libc::strdup(text.as_ptr()) }
}

/// Chooses among what the library offers and says why.
pub(crate) fn choose(library: &'static Library, wanted: &Wanted) -> Result<(Offer, String)> {
    let offers: Vec<Offer> = ask(library)?.iter().map(describe).collect();
    let outcome: std::result::Result<Choice, Vec<(usize, Why)>> = select::select(&offers, wanted);
    let why = select::explain(&offers, wanted, &outcome);
    match outcome {
        Ok(choice) => Ok((offers[choice.index].clone(), why)),
        Err(_) => Err(Error::new(
            ErrorClass::OTHER,
            format!(
                "{why}\nfound: {library}. `fi_info` lists what there is; WEFT_TRANSPORT chooses another fabric"
            ),
        )),
    }
}

/// What the provider of an offer has beyond messages.
pub(crate) fn offers_capability(library: &'static Library, offer: &Offer, caps: u64) -> bool {
    let hints = library.blank().map(|mut hints| {
        fill_hints(&mut hints, caps);
        // SAFETY: a blank description has all its parts, and frees the text by the C allocator.
        unsafe { (*(*hints.first()).fabric_attr).prov_name = owned_text(&offer.provider) };
        hints
    });
    let list = hints.and_then(|hints| library.offers(&hints));
    // Whoever cannot be asked offers nothing.
    list.is_ok_and(|list| list.iter().any(|info| describe(info).domain == offer.domain))
}

/// A description of the library with what it was asked for.
pub(crate) struct Found {
    /// The list that it belongs to.
    pub(crate) list: InfoList,
    pub(crate) info: *mut fi_info,
    /// Whether writes can tell when they are visible.
    pub(crate) tells_delivery: bool,
    /// Whether it is for endpoints with collectives, too.
    pub(crate) collective: bool,
}

/// The description of an offer with just those capabilities that will be used (others cost time): with collectives where these
/// are wanted and offered.
pub(crate) fn find_again(
    library: &'static Library,
    offer: &Offer,
    carrier: Carrier,
    collective: bool,
) -> Result<Found> {
    let messages = carrier.capability() | FI_SEND | FI_RECV | offer.caps & (FI_LOCAL_COMM | FI_REMOTE_COMM);
    let atomic = offer.caps & FI_ATOMIC;
    let remote = if offer.can(REMOTE_MEMORY) { REMOTE_MEMORY } else { 0 };
    // Some offer a thing alone that they refuse together with another, and some do not know themselves by name.
    for (caps, flags, named) in [
        (messages | remote | atomic, FI_DELIVERY_COMPLETE, true),
        (messages | remote | atomic, 0, true),
        (messages | remote, FI_DELIVERY_COMPLETE, true),
        (messages | remote, 0, true),
        (messages, 0, true),
        (messages | remote, FI_DELIVERY_COMPLETE, false),
        (messages | remote, 0, false),
        (messages, 0, false),
    ] {
        let Some((list, info)) = ask_for(library, offer, caps, flags, named)? else { continue };
        let tells_delivery = flags != 0;
        let with = if collective {
            // Who fails when it is asked for more offers no more.
            ask_for(library, offer, caps | FI_COLLECTIVE, flags, named).ok().flatten()
        } else {
            None
        };
        return Ok(match with {
            Some((list, info)) => Found { list, info, tells_delivery, collective: true },
            None => Found { list, info, tells_delivery, collective: false },
        });
    }
    Err(Error::new(ErrorClass::OTHER, format!("{library}: {offer} is no longer offered")))
}

/// The description of an offer with these capabilities.
fn ask_for(
    library: &'static Library,
    offer: &Offer,
    caps: u64,
    flags: u64,
    named: bool,
) -> Result<Option<(InfoList, *mut fi_info)>> {
    let mut hints = library.blank()?;
    fill_hints(&mut hints, caps);
    // SAFETY: a blank description has all its parts, and frees the text by the C allocator.
    unsafe {
        let info = &mut *hints.first();
        // Layers over an adapter name its own form among their offers and refuse to be asked by it.
        info.addr_format = if offer.addr_format == FI_SOCKADDR_IB { 0 } else { offer.addr_format };
        (*info.tx_attr).op_flags = flags;
        if named {
            (*info.fabric_attr).prov_name = owned_text(&offer.provider);
        }
    }
    let list = library.offers(&hints)?;
    let is_same = |other: &Offer| {
        (&other.provider, &other.fabric, &other.domain, other.addr_format, other.ip)
            == (&offer.provider, &offer.fabric, &offer.domain, offer.addr_format, offer.ip)
    };
    let same = list.iter().find(|info| is_same(&describe(info))).map(std::ptr::from_ref);
    let Some(info) = same.map(<*const fi_info>::cast_mut) else { return Ok(None) };
    // It was a question only: that every message waits for its delivery is not wanted.
    // SAFETY: a description of the list, which belongs to us.
    unsafe { (*(*info).tx_attr).op_flags = 0 };
    Ok(Some((list, info)))
}
