use super::*;
use crate::hosts::dealing::NamedHost;
use crate::options::Asked;
use proptest::prelude::*;
use std::time::Duration;
use weft_place::policy::{BindTo, MapBy};

struct Fake;

impl Surroundings for Fake {
    fn read(&self, path: &Path) -> io::Result<String> {
        match path.to_str() {
            Some("two.conf") => Ok("-n 2 ocean -v\n-n 3 -wdir /tmp atmos\n".to_owned()),
            Some("extra.opt") => Ok("# for both\n-n 3 \\\n -wdir /tmp\n".to_owned()),
            Some("again.opt") => Ok("-file again.opt".to_owned()),
            Some("shared.hosts") => {
                Ok("a slots=4 max_slots=8 # front\n\n [fe80::1] slots=2\n b:3 slots=1\n".to_owned())
            }
            Some("slip1.hosts") => Ok("# machines\nnode1:4\nnode2 slots=x\n".to_owned()),
            Some("slip2.hosts") => Ok("node1 slot=4\n".to_owned()),
            Some("slip3.hosts") => Ok("node1 4\n".to_owned()),
            Some("slip4.hosts") => Ok("slots=4\n".to_owned()),
            Some("hosts") => Ok("# machines\nnode1:4\nnode2 slots=2\n".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn variable(&self, name: &OsStr) -> Option<OsString> {
        (name == "SHELL_VARIABLE").then(|| OsString::from("here"))
    }

    fn architecture(&self) -> &str {
        "x86_64"
    }
}

fn read(line: &str) -> Result<(Vec<Section>, Settings), String> {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    match parse(&words, &Fake) {
        Ok(Request::Run(sections, settings)) => Ok((sections, settings)),
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => Err(error.0),
    }
}

#[test]
fn one_program_with_its_own_options() {
    let (sections, _) = read("-n 4 ./solver -n 7 --verbose").expect("well formed");
    assert_eq!(sections.len(), 1);
    assert_eq!((sections[0].count, sections[0].program.to_str()), (4, Some("./solver")));
    assert_eq!(sections[0].arguments, ["-n", "7", "--verbose"]);
}

#[test]
fn the_number_of_processes_is_one_unless_given() {
    let (sections, _) = read("a in1 : b in2").expect("well formed");
    assert_eq!(sections.iter().map(|section| section.count).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn sections_have_their_own_environment_and_folder() {
    let (sections, settings) =
        read("-genv A 1 -n 2 -env B 2 -x C=3 -x SHELL_VARIABLE -x UNSET ocean : -np 3 -wdir /tmp atmos")
            .expect("well formed");
    assert_eq!(settings.environment, [("A".into(), "1".into())]);
    let pairs: [(OsString, OsString); 3] =
        [("B".into(), "2".into()), ("C".into(), "3".into()), ("SHELL_VARIABLE".into(), "here".into())];
    assert_eq!(sections[0].environment, pairs);
    assert_eq!(sections[1].wdir.as_deref(), Some(Path::new("/tmp")));
    assert!(sections[1].environment.is_empty());
}

#[test]
fn one_or_two_dashes_and_an_equal_sign() {
    for line in ["-timeout 2.5 -l a", "--timeout 2.5 --tag-output a", "--timeout=2.5 -prepend-rank a"] {
        let (_, settings) = read(line).expect("well formed");
        assert_eq!(settings.timeout, Some(Duration::from_millis(2500)), "{line}");
        assert!(settings.tag_output, "{line}");
    }
}

/// A slip in a list of hosts is no host without slots, but an error that says where, what, and what may stand there.
#[test]
fn slips_in_lists_of_hosts_are_refused() {
    let table = [
        ("--hosts a:4x,b:2 p", ["--hosts", "\"4x\" in \"a:4x\"", "whole number"]),
        ("--hosts a:-1 p", ["--hosts", "\"-1\"", "whole number"]),
        ("--hosts a: p", ["--hosts", "\"\" in \"a:\"", "a:4"]),
        ("--hosts a,:4 p", ["--hosts", "\":4\" names no host", "NAME:RANKS"]),
        ("--hosts fe80::1 p", ["--hosts", "\"fe80::1\"", "in brackets"]),
        ("--hosts [fe80::1 p", ["--hosts", "\"[fe80::1\"", "in brackets"]),
        ("--hosts [fe80::1]4x p", ["--hosts", "names no host", "in brackets"]),
        ("-n 1 -host a:two p", ["-host", "\"two\"", "whole number"]),
        ("-f slip1.hosts p", ["line 3 of the host file slip1.hosts", "\"x\" in \"slots=x\"", "whole number"]),
        ("-f slip2.hosts p", ["line 1 of the host file slip2.hosts", "\"slot=4\"", "slots=RANKS"]),
        (
            "-f slip3.hosts p",
            ["line 1 of the host file slip3.hosts", "\"4\" is not understood", "slots=RANKS"],
        ),
        ("-f slip4.hosts p", ["line 1 of the host file slip4.hosts", "names no host", "NAME:RANKS"]),
    ];
    for (line, words) in table {
        let why = read(line).expect_err(line);
        assert!(words.iter().all(|word| why.contains(word)), "{line}: {why}");
    }
    let (_, settings) = read("-f shared.hosts --hosts [::1]:2,c:0 p").expect("well formed");
    let told: Vec<_> = settings.hosts.iter().map(|host| (host.name.as_str(), host.slots)).collect();
    assert_eq!(
        told,
        [("a", Some(4)), ("fe80::1", Some(2)), ("b", Some(1)), ("::1", Some(2)), ("c", Some(0))]
    );
}

#[test]
fn placement_words_are_read() {
    let (_, settings) = read("--bind-to core --map-by socket --report-bindings a").expect("well formed");
    assert_eq!((settings.bind_to, settings.map_by), (Some(BindTo::Core), Some(MapBy::Socket)));
    assert!(settings.report_bindings);
}

#[test]
fn a_configuration_file_gives_sections() {
    let (sections, _) = read("-configfile two.conf").expect("well formed");
    assert_eq!(sections.iter().map(|section| section.count).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(sections[0].arguments, ["-v"]);
}

#[test]
fn hosts_are_collected_with_their_slots() {
    let hosts = read("-hosts a:2,b -f hosts x").expect("well formed").1.hosts;
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "node1", "node2"]);
    assert_eq!((hosts[0].slots, hosts[1].slots), (Some(2), None));
}

#[test]
fn without_a_number_hosts_get_as_many_ranks_as_they_take() {
    for (line, count) in [
        ("-hosts a:2,b:3 x", 5),
        ("-hosts a,b x", 2),
        ("-ppn 4 -hosts a,b x", 8),
        ("-n 3 -hosts a:2,b:2 x", 3),
        ("-n 1 x", 1),
        ("x", 1),
    ] {
        assert_eq!(read(line).expect("well formed").0[0].count, count, "{line}");
    }
    let (sections, _) = read("-hosts a:2,b:2 x : y").expect("well formed");
    assert_eq!(sections.iter().map(|section| section.count).collect::<Vec<_>>(), [1, 1]);
    let (sections, _) =
        read("-hosts a:2,b:2 -n 1 x : y : -host c:5 z : -host d -soft 2 -n 3 z").expect("well formed");
    assert_eq!(sections.iter().map(|section| section.count).collect::<Vec<_>>(), [1, 3, 5, 2]);
    assert_eq!(sections.iter().map(|section| section.asked.maxprocs).collect::<Vec<_>>(), [1, 3, 5, 3]);
    assert_eq!(sections[2].hosts, [NamedHost { name: "c".into(), slots: Some(5) }]);
}

#[test]
fn soft_counts_choose_the_largest_allowed() {
    assert_eq!(read("-n 7 -soft 2,4:16:2 a").expect("well formed").0[0].count, 6);
    assert!(read("-n 3 -soft 5 a").expect_err("none allowed").contains("-soft"));
}

/// Every wrong line gives a text with the culprit in it.
#[test]
fn wrong_lines_name_the_culprit() {
    let table = [
        ("", "no program"),
        ("-n 2", "no program"),
        ("-n", "a number of processes"),
        ("-n two a", "\"two\""),
        ("-n -3 a", "\"-3\""),
        ("-n 0 a", "no process"),
        ("-n 5000 a", "at most 4096"),
        ("-n 4000 a : -n 4000 b", "8000 processes"),
        ("a :", "no program"),
        ("-env A", "two words"),
        ("-env A=B c d", "is no name"),
        ("--timeout 0 a", "above 0"),
        ("--timeout soon a", "\"soon\""),
        ("--bindto core a", "--bind-to"),
        ("--bind-to moon a", "moon"),
        ("--map-by moon a", "moon"),
        ("--mca btl self a", "Open MPI"),
        ("-configfile missing.conf", "missing.conf"),
        ("-f missing a", "missing"),
        ("-ppn 1 -n 2 a", "several machines"),
        ("-arch arm a", "x86_64"),
        ("--initial-errhandler mpi_errors_ignored a", "mpi_errors_return"),
        ("-s all a", "\"all\""),
        ("-file missing.opt a", "missing.opt"),
        ("-file again.opt a", "one -file"),
        ("-thread-level MPI_THREAD_SOME a", "MPI_THREAD_SERIALIZED"),
        ("-pset ocean a", "app://ocean"),
        ("-pset mpi://OCEAN a", "are taken"),
        ("--verbose=1 a", "takes no value"),
    ];
    for (line, part) in table {
        let text = read(line).expect_err(line);
        assert!(text.contains(part), "{line:?} gave {text:?}");
    }
}

#[test]
fn the_error_handler_is_named_in_any_case() {
    let (sections, _) = read("-initial-errhandler MPI_ERRORS_RETURN a").expect("well formed");
    assert_eq!(sections[0].asked.initial_errhandler.as_deref(), Some("mpi_errors_return"));
}

#[test]
fn each_program_has_its_own_requests() {
    let (sections, _) = read(
        "-n 5 -soft 1:3 -arch X86_64 -memory-alloc-kinds mpi,gpu:x -pset app://a -pset app://both a : \
         -host node1 -thread-level mpi_thread_multiple -pset app://both b",
    )
    .expect("well formed");
    let expected = Asked {
        maxprocs: 5,
        soft: Some("1:3".into()),
        arch: Some("X86_64".into()),
        memory_alloc_kinds: Some("mpi,gpu:x".into()),
        psets: vec!["app://a".into(), "app://both".into()],
        ..Asked::default()
    };
    assert_eq!((sections[0].count, &sections[0].asked), (3, &expected));
    let expected = Asked {
        maxprocs: 1,
        host: Some("node1".into()),
        thread_level: Some("MPI_THREAD_MULTIPLE".into()),
        psets: vec!["app://both".into()],
        ..Asked::default()
    };
    assert_eq!(sections[1].asked, expected);
}

#[test]
fn a_file_of_options_stands_where_it_is_named() {
    let (sections, _) = read("-n 2 -file extra.opt -n 4 a -v : -file extra.opt b").expect("well formed");
    assert_eq!((sections[0].count, sections[0].arguments.len()), (4, 1));
    assert_eq!(sections[0].wdir.as_deref(), Some(Path::new("/tmp")));
    assert_eq!((sections[1].count, sections[1].asked.file.as_deref()), (3, Some("extra.opt")));
}

proptest! {
    /// Whatever stands after a program's name reaches the program untouched.
    #[test]
    fn arguments_pass_through(counts in prop::collection::vec(1u32..9, 1..4), arguments in prop::collection::vec("[!-9;-~]{1,8}", 0..6)) {
        let mut words: Vec<OsString> = Vec::new();
        for (at, count) in counts.iter().enumerate() {
            if at > 0 {
                words.push(":".into());
            }
            words.extend([OsString::from("-n"), count.to_string().into(), "program".into()]);
            words.extend(arguments.iter().map(OsString::from));
        }
        let Ok(Request::Run(sections, _)) = parse(&words, &Fake) else { panic!("{words:?}") };
        prop_assert_eq!(sections.iter().map(|section| section.count).collect::<Vec<_>>(), counts);
        let arguments: Vec<OsString> = arguments.into_iter().map(OsString::from).collect();
        for section in sections {
            prop_assert_eq!(&section.arguments, &arguments);
        }
    }

    #[test]
    fn no_line_panics(words in prop::collection::vec("(-{0,2}[a-z]{1,10}(=[a-z0-9]{0,3})?|:|[0-9]{1,5}|[ -~]{0,5})", 0..8)) {
        let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        let _ = parse(&words, &Fake);
    }
}

#[test]
fn threads_are_said_in_the_words_of_many_launchers() {
    use crate::placing::Threads::{self, Number, OpenMp};
    let said = |line: &str| -> (Vec<Option<Threads>>, Option<Threads>, Option<BindTo>, Option<MapBy>) {
        let (sections, settings) = read(line).unwrap_or_else(|why| panic!("{line}: {why}"));
        let each = sections.iter().map(|section| section.threads).collect();
        (each, settings.threads, settings.bind_to, settings.map_by)
    };
    for line in
        ["--threads 4 a", "-threads=4 a", "--cpus-per-rank 4 a", "--cpus-per-proc=4 a", "--cpus-per-task 4 a"]
    {
        let line = line.replace("-threads=4", "--threads=4").replace("---", "--");
        assert_eq!(said(&line), (vec![Some(Number(4))], None, None, None), "{line}");
    }
    assert_eq!(said("--threads omp a : --threads 2 b : c").0, [Some(OpenMp), Some(Number(2)), None]);
    assert_eq!(said("--map-by socket:PE=8 a"), (vec![None], Some(Number(8)), None, Some(MapBy::Socket)));
    assert_eq!(said("--map-by slot:pe=omp a").1, Some(OpenMp));
    assert_eq!(said("--bind-to core:2 a"), (vec![None], Some(Number(2)), Some(BindTo::Core), None));
    for line in
        ["--threads 0 a", "--threads many a", "--threads 5000 a", "--map-by core:SPAN a", "--bind-to core: a"]
    {
        let why = read(line).expect_err(line);
        assert!(why.contains("a number of threads of each rank, 1 to 4096, or omp"), "{why}");
    }
    assert!(read("--map-by slot:PE=é a").is_err(), "no letter is cut in two");
    let (_, settings) = read("--threads 2 --bind-threads a").expect("well formed");
    assert!(
        settings.bind_threads && settings.environment.contains(&("WEFT_BIND_LANES".into(), "yes".into()))
    );
}

#[test]
fn threads_are_settled_by_program_then_job_then_variable() {
    use crate::placing::{note, number, settle};
    let settled = |line: &str| -> Result<Vec<u32>, String> {
        let (mut sections, settings) = read(line)?;
        settle(&mut sections, &settings).map_err(|error| error.0)?;
        Ok(sections.iter().map(number).collect())
    };
    let omp = "-genvnone -genv OMP_NUM_THREADS 6,2";
    assert_eq!(
        settled(&format!("{omp} --threads omp a : -env OMP_NUM_THREADS 3 --threads omp b : c")),
        Ok(vec![6, 3, 1])
    );
    assert_eq!(settled(&format!("{omp} --map-by core:PE=2 a : --threads omp b")), Ok(vec![2, 6]));
    assert_eq!(settled(&format!("{omp} --bind-to none a")), Ok(vec![0]));
    for value in ["0", "many", ""] {
        let line = format!("-genvnone --threads omp -env OMP_NUM_THREADS={value} a")
            .replace("-env OMP_NUM_THREADS=", "-x OMP_NUM_THREADS=");
        assert!(settled(&line).expect_err(value).contains("OMP_NUM_THREADS, which says none"), "{value}");
    }
    assert!(settled("--bind-threads a").expect_err("for what?").contains("--threads 4"));
    assert_eq!(settled("--bind-threads --threads 2 a : b"), Ok(vec![2, 1]));
    // Several threads on one core are not silent.
    let told = |line: &str| {
        let (mut sections, settings) = read(line).expect("well formed");
        settle(&mut sections, &settings).expect("settled");
        note(&sections, &settings)
    };
    let words = told(&format!("{omp} --bind-to core a")).expect("told");
    assert!(words.contains("says 6") && words.contains("--threads omp"), "{words}");
    for quiet in
        ["--bind-to socket a", "a", "--bind-to core --threads 2 a", "--bind-to core -env OMP_NUM_THREADS 1 a"]
    {
        assert_eq!(told(&format!("{omp} {quiet}")), None, "{quiet}");
    }
}
