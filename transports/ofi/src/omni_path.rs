//! What Omni-Path's providers want to be told beside their interface: a number of 128 bits that the processes of one job share
//! and no other job on the fabric has (fi_opx(7), fi_psm2(7), fi_psm3(7)). Without it all jobs have the same one.

use crate::environment;
use std::path::Path;

/// The variables by which the providers are told, and whether they read the number with dashes. `opx` takes hexadecimal digits
/// and nothing else, and falls back to the one number of everybody where it finds another character.
const VARIABLES: [(&str, bool); 3] = [("FI_OPX_UUID", false), ("FI_PSM2_UUID", true), ("FI_PSM3_UUID", true)];

/// Where the kernel shows devices, and how those of Omni-Path begin.
const DEVICES: &str = "/sys/class/infiniband";
const OMNI_PATH: &str = "hfi1_";

/// A number of 128 bits for the name of a job, as the providers read it: with dashes or without.
fn uuid(job: &str, dashes: bool) -> String {
    // FNV-1a: any job has its own, and nothing depends on it being hard to find another of the same.
    let hash = job.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    let text = format!("{hash:032x}");
    if !dashes {
        return text;
    }
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

fn has_device(devices: &Path) -> bool {
    let entries = std::fs::read_dir(devices).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(OMNI_PATH))
}

/// Tells the providers the job's number, where there is such a device and the user has told them none.
pub(crate) fn name_job(job: &str) {
    if !has_device(Path::new(DEVICES)) {
        return;
    }
    for (variable, dashes) in VARIABLES {
        environment::tell(variable, &uuid(job, dashes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_one_number_and_another_job_another() {
        let number = uuid("job 7", true);
        assert_eq!(number, uuid("job 7", true));
        assert_ne!(number, uuid("job 8", true));
        assert_eq!(number.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(number.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-'));
        let plain = uuid("job 7", false);
        assert_eq!(plain, number.replace('-', ""));
        assert_eq!(plain.len(), 32, "opx takes 32 digits and nothing else");
    }

    #[test]
    fn only_omni_path_is_told() {
        let folder = std::env::temp_dir().join(format!("weft-omni-path-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("mlx5_0")).unwrap();
        assert!(!has_device(&folder));
        std::fs::create_dir_all(folder.join("hfi1_0")).unwrap();
        assert!(has_device(&folder));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(!has_device(&folder));
    }
}
