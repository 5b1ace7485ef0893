use super::*;
use proptest::prelude::*;

fn device(name: &str, speech: Speech) -> Device {
    Device {
        name: name.to_owned(),
        speech,
        pci: (!name.starts_with("rxe")).then(|| "0000:3b:00.0".to_owned()),
        numa_node: None,
        cpus: "".parse().expect("a list"),
        rate: Some(100),
        active_ports: 1,
        ports: "port 1 ACTIVE".to_owned(),
    }
}

/// A machine where everything works with these devices.
fn machine(devices: &[(&str, Speech)]) -> Facts {
    Facts {
        devices: devices.iter().map(|&(name, speech)| device(name, speech)).collect(),
        device_files: true,
        libibverbs: Some("/usr/lib/libibverbs.so.1".to_owned()),
        libfabric: Some("/usr/lib/libfabric.so.1".to_owned()),
        ..Facts::default()
    }
}

const AUTO: Wish = Wish { forced: None, rdma: Rdma::Auto, rails: 1 };

fn kinds(words: &[&str]) -> Vec<Kind> {
    words.iter().zip('a'..).map(|(word, node)| Kind::read(word, node.to_string(), 1)).collect()
}

fn agreed(words: &[&str]) -> Agreed {
    agree(&kinds(words), &AUTO).expect("a road")
}

#[test]
fn a_machine_says_its_roads_with_its_own_choice_first() {
    let of = |devices: &[(&str, Speech)], wish: &Wish| word(&roads(&machine(devices), wish));
    let infiniband = ("mlx5_0", Speech::InfiniBand);
    let roce = ("mlx5_1", Speech::Roce);
    let named = |way, rdma| Wish { forced: Some(way), rdma, ..AUTO };
    for (devices, wish, expected) in [
        (&[][..], AUTO, "u"),
        (&[infiniband], AUTO, "iu"),
        (&[infiniband, roce], AUTO, "iru"),
        (&[roce], AUTO, "ru"),
        (&[("cxi0", Speech::Slingshot)], AUTO, "su"),
        (&[("hfi1_0", Speech::OmniPath), roce], AUTO, "rou"),
        (&[("rxe0", Speech::Roce)], AUTO, "ku"),
        (&[("iw0", Speech::Iwarp)], AUTO, "u"),
        (&[], Wish { rdma: Rdma::Require, ..AUTO }, ""),
        (&[infiniband], Wish { rdma: Rdma::Require, ..AUTO }, "i"),
        (&[], Wish { rdma: Rdma::Prefer, ..AUTO }, "u"),
        (&[infiniband], named(Way::Verbs, Rdma::Auto), "i"),
        (&[infiniband], named(Way::Verbs, Rdma::Prefer), "iu"),
        (&[], named(Way::Verbs, Rdma::Auto), ""),
        (&[infiniband], named(Way::Softroce, Rdma::Auto), "u"),
        (&[infiniband], named(Way::Ofi, Rdma::Auto), "l"),
        (&[("cxi0", Speech::Slingshot)], named(Way::Ofi, Rdma::Prefer), "lu"),
    ] {
        assert_eq!(of(devices, &wish), expected, "{devices:?} {wish:?}");
    }
    let mut poor = machine(&[infiniband]);
    poor.libibverbs = None;
    assert_eq!(word(&roads(&poor, &AUTO)), "u", "a device that cannot be opened leads nowhere");
    let mut fast = machine(&[infiniband, ("cxi0", Speech::Slingshot)]);
    assert_eq!(word(&roads(&fast, &AUTO)), "isu", "verbs come first where both take the same time");
    fast.devices[1].rate = Some(400);
    assert_eq!(word(&roads(&fast, &AUTO)), "siu", "its choice by the model is the first");
}

#[test]
fn a_road_leads_over_its_own_devices() {
    let facts = machine(&[("mlx5_0", Speech::InfiniBand), ("mlx5_1", Speech::Roce)]);
    let rails = |road| over(road, &facts, &AUTO).expect("a route").rails;
    assert_eq!(rails(Road::InfiniBand), ["mlx5_0"]);
    assert_eq!(rails(Road::Roce), ["mlx5_1"]);
    assert!(over(Road::Slingshot, &facts, &AUTO).is_err());
    assert!(over(Road::Libfabric, &facts, &AUTO).is_err(), "nobody asked for it");
}

#[test]
fn nodes_that_are_alike_keep_their_choice() {
    for (words, road) in
        [(&["iu"][..], Road::InfiniBand), (&["u", "u"], Road::Softroce), (&["risu", "ru"], Road::Roce)]
    {
        let agreed = agreed(words);
        assert_eq!(
            (agreed.road, agreed.is_changed, agreed.why, agreed.is_fall),
            (road, false, None, false),
            "{words:?}"
        );
    }
}

#[test]
fn nodes_that_differ_take_the_best_that_all_have() {
    for (words, road, is_fall) in [
        (&["iu", "u"][..], Road::Softroce, true),
        (&["iu", "ru"], Road::Softroce, true),
        (&["iru", "ru"], Road::Roce, false),
        (&["iru", "riu"], Road::InfiniBand, false),
        (&["lu", "u"], Road::Softroce, true),
        (&["ku", "u"], Road::Softroce, false),
        (&["sriu", "iru", "rosiu"], Road::InfiniBand, false),
    ] {
        let agreed = agreed(words);
        assert_eq!((agreed.road, agreed.is_changed, agreed.is_fall), (road, true, is_fall), "{words:?}");
    }
    let why = agreed(&["iu", "u", "iu"]).why.expect("a reason");
    assert_eq!(why, "b cannot use verbs over InfiniBand, which a, c can");
    let why = agreed(&["iru", "riu"]).why.expect("a reason");
    assert!(why.contains("verbs over RoCE is on all nodes"), "{why}");
}

#[test]
fn nothing_in_common_names_the_nodes_and_the_remedy() {
    let told =
        |words: &[&str], rdma| agree(&kinds(words), &Wish { rdma, ..AUTO }).expect_err("nothing in common");
    let forced = told(&["u", "l"], Rdma::Auto);
    for part in ["a: softroce", "b: ofi", "WEFT_TRANSPORT", "-genv"] {
        assert!(forced.contains(part), "{part}: {forced}");
    }
    let required = told(&["i", "r", ""], Rdma::Require);
    for part in [
        "WEFT_RDMA=require",
        "a: verbs over InfiniBand",
        "b: verbs over RoCE",
        "c: nothing",
        "WEFT_RDMA=prefer",
    ] {
        assert!(required.contains(part), "{part}: {required}");
    }
}

#[test]
fn every_road_has_a_letter_of_its_own() {
    let all = word(&Road::ALL);
    assert_eq!(Kind::read(&all, String::new(), 1).roads, Road::ALL);
    assert_eq!(Kind::read("u?", String::new(), 1).roads, [Road::Softroce], "of a later version");
}

proptest! {
    /// Whatever the order is in which nodes are heard of: one answer, that all of them have, and that no better one is passed over for.
    #[test]
    fn everybody_comes_to_the_same(
        words in prop::collection::vec(prop::sample::subsequence("siorakxlu".chars().collect::<Vec<_>>(), 0..=9).prop_shuffle(), 1..6),
        seed in any::<prop::sample::Index>(),
    ) {
        let words: Vec<String> = words.into_iter().map(|word| word.into_iter().collect()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut kinds = kinds(&words);
        let before = agree(&kinds, &AUTO);
        let turn = seed.index(kinds.len());
        kinds.rotate_left(turn);
        prop_assert_eq!(&agree(&kinds, &AUTO), &before);
        kinds.reverse();
        prop_assert_eq!(&agree(&kinds, &AUTO), &before);
        let common = |road: &Road| kinds.iter().all(|kind| kind.roads.contains(road));
        match before {
            Err(_) => prop_assert!(!Road::ALL.iter().any(common)),
            Ok(agreed) => {
                prop_assert!(common(&agreed.road));
                let chosen = |kind: &Kind| kind.roads[0] == agreed.road;
                prop_assert_eq!(agreed.is_changed, !kinds.iter().all(chosen));
                if agreed.is_changed {
                    prop_assert_eq!(Road::ALL.into_iter().find(common), Some(agreed.road));
                    prop_assert!(agreed.why.is_some());
                }
            }
        }
    }
}
