//! Texts that users and tools write for the choice of algorithms. What is read must be read alike after being written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_coll::{Call, Figures, Group, Model, Rules, Vector};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(rules) = Rules::parse(&text, "fuzz") {
        let again: Vec<String> = rules.iter().map(ToString::to_string).collect();
        assert_eq!(Rules::parse(&again.join("\n"), "fuzz"), Ok(rules.clone()));
        let vector = Vector { count: 1000, element: 8, commutative: true };
        let call = Call::Allreduce { vector, in_place: false };
        let group = Group { rank: 1, size: 6 };
        let _ = weft_coll::plan_by(&call, group, &Model::default(), &[&rules]);
    }
    if let Ok(figures) = Figures::parse(&text, "fuzz") {
        let written = figures.to_string();
        let read = Figures::parse(&written, "fuzz").expect("what was written");
        assert_eq!(read.to_string(), written);
        let _ = figures.apply(Model::default());
    }
});
