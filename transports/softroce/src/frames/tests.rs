//! What frames look like, and whom they are for.

use super::*;

const FROM: &str = "10.9.0.1:49443";
/// What a usual frame carries.
const USUAL: usize = 1472;

const TO: &str = "10.9.0.2:4791";

fn frame() -> Frame {
    Frame::new([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], FROM.parse().unwrap(), TO.parse().unwrap(), USUAL)
}

#[test]
fn a_frame_holds_the_packet_that_a_socket_would_send() {
    let mut frame = frame();
    for length in [40, 0, 1024, 1, USUAL, 16] {
        let datagram: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let bytes = frame.around(&datagram);
        assert_eq!(bytes[..ETHERNET], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        let (from, to) = (FROM.parse().unwrap(), TO.parse().unwrap());
        assert_eq!(bytes[ETHERNET..], crate::trace::with_headers(from, to, 0, &datagram), "{length} bytes");
    }
    assert!(frame.takes(&[0; USUAL]) && !frame.takes(&[0; USUAL + 1]));
    frame.most = MOST;
    assert_eq!(frame.around(&[5; MOST]).len(), HEADERS + MOST);
}

#[test]
fn a_long_datagram_is_kept_in_one_piece() {
    let mut frame = frame();
    frame.in_front_of(&[vec![1; 1040], vec![2; 1040]]);
    let datagram: Vec<u8> = (0..MOST).map(|at| at as u8).collect();
    let plain = frame.around(&datagram).to_vec();
    let whole = ((HEADERS + MOST) as u16).to_ne_bytes();
    let bytes = frame.around_in_one(&datagram);
    assert_eq!(bytes[..FRONT], [0, 0, whole[0], whole[1], 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[FRONT..], plain);
}

#[test]
fn several_in_one_frame_say_where_they_are_cut() {
    let mut frame = frame();
    // What one that left before has left behind means nothing.
    frame.around(&[7; 100]);
    let bytes = frame.in_front_of(&[vec![1; 1040], vec![2; 1040], vec![3; 17]]);
    let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    assert_eq!((bytes[0], bytes[1]), (1, 5));
    assert_eq!((word(2), word(4), word(6), word(8)), (42 + 2097, 1040, 34, 6));
    let from_ip = &bytes[AT_IP..];
    assert_eq!(fold(sum(&from_ip[..IP])), 0xffff, "the checksum of the IP header");
    assert_eq!(from_ip[2..4], (28 + 2097_u16).to_be_bytes());
    assert_eq!(from_ip[IP + 4..IP + 6], (8 + 2097_u16).to_be_bytes());
    // Of the pseudo header (RFC 768): the kernel adds the rest.
    let pseudo = [10, 9, 0, 1, 10, 9, 0, 2, 0, 17, 8, 57];
    assert_eq!(from_ip[IP + 6..IP + 8], fold(sum(&pseudo)).to_be_bytes());
}

const TABLE: &str = "\
IP address       HW type     Flags       HW address            Mask     Device
10.9.0.3         0x1         0x2         0a:1b:2c:3d:4e:5f     *        eth1
10.9.0.2         0x1         0x0         00:00:00:00:00:00     *        eth0
10.9.0.3         0x1         0x6         12:34:56:78:9a:bc     *        eth0
10.9.0.33        0x20        0x2         12:34:56:78:9a:bc     *        eth0
";

#[test]
fn a_neighbour_is_who_has_answered_at_the_interface() {
    let of = |address: &str, interface| station_of(TABLE, address.parse().unwrap(), interface);
    assert_eq!(of("10.9.0.3", "eth0"), Some([0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc]));
    assert_eq!(of("10.9.0.3", "eth1"), Some([0x0a, 0x1b, 0x2c, 0x3d, 0x4e, 0x5f]));
    assert_eq!(of("10.9.0.2", "eth0"), None, "it has not answered");
    assert_eq!(of("10.9.0.33", "eth0"), None, "no Ethernet");
    assert_eq!(of("10.9.0.4", "eth0"), None, "nobody");
    for end in 0..TABLE.len() {
        station_of(&TABLE[..end], "10.9.0.3".parse().unwrap(), "eth0");
    }
}

proptest::proptest! {
    #[test]
    fn any_table_is_read(table in "(\\PC{0,20}[ \n:x]){0,40}") {
        station_of(&table, "10.9.0.3".parse().unwrap(), "eth0");
    }
}

#[test]
fn the_loopback_has_no_frames() {
    assert!(Link::open(IpAddr::V4(Ipv4Addr::LOCALHOST)).is_err());
    assert!(Link::open("::1".parse().unwrap()).is_err());
    assert!(Link::open("192.0.2.77".parse().unwrap()).is_err(), "no address of this host");
}
