//! Where a shared library would be found, by looking and not by loading it.

use crate::system::System;

/// Folders that the dynamic linker looks into by itself, on the systems we know.
const USUAL: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// The path of a library by its name (`libfabric.so.1`), in the linker's order: `LD_LIBRARY_PATH`, the configured folders
/// (`/etc/ld.so.conf.d`), the usual ones.
pub fn library(system: &dyn System, name: &str, library_path: Option<&str>) -> Option<String> {
    let own =
        library_path.unwrap_or_default().split(':').filter(|folder| !folder.is_empty()).map(str::to_owned);
    let files = system.list("/etc/ld.so.conf.d").into_iter().map(|file| format!("/etc/ld.so.conf.d/{file}"));
    let configured: Vec<String> = std::iter::once("/etc/ld.so.conf".to_owned())
        .chain(files)
        .filter_map(|file| system.read(&file))
        .flat_map(|text| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<String>>())
        .filter(|line| line.starts_with('/'))
        .collect();
    let usual = USUAL.iter().map(|&folder| folder.to_owned());
    own.chain(configured)
        .chain(usual)
        .find(|folder| system.list(folder).iter().any(|file| file == name))
        .map(|folder| format!("{}/{name}", folder.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Snapshot;

    #[test]
    fn folders_are_searched_in_the_linkers_order() {
        let files = ["/opt/a/libx.so.1", "/opt/b/libx.so.1", "/usr/lib64/libx.so.1", "/usr/lib64/liby.so.1"];
        let mut all: std::collections::BTreeMap<String, String> =
            files.iter().map(|&file| (file.to_owned(), String::new())).collect();
        all.insert("/etc/ld.so.conf.d/b.conf".to_owned(), "# ours\n/opt/b\n".to_owned());
        let system = Snapshot(all);
        let find = |name: &str, path| library(&system, name, path);
        assert_eq!(find("libx.so.1", Some(":/opt/a/")).as_deref(), Some("/opt/a/libx.so.1"));
        assert_eq!(find("libx.so.1", None).as_deref(), Some("/opt/b/libx.so.1"));
        assert_eq!(find("liby.so.1", None).as_deref(), Some("/usr/lib64/liby.so.1"));
        assert_eq!(find("libz.so.1", None), None);
    }
}
