//! Tables of a library's functions, each found by its name.

/// A structure with a library's functions under their own names, and how they are found. Those behind `optional` may be missing.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident: $(fn $name:ident($($argument:ty),*) $(-> $result:ty)?;)* optional $(fn $maybe:ident($($given:ty),*) $(-> $got:ty)?;)*) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $table {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $(pub(crate) $maybe: Option<unsafe extern "C" fn($($given),*) $(-> $got)?>,)*
        }

        impl $table {
            fn find(handle: &libloading::os::unix::Library) -> Result<$table, libloading::Error> {
                Ok($table {
                    // SAFETY: the types are those of the header's declarations, which never change within a library of this
                    // name.
                    $($name: unsafe { *handle.get(concat!(stringify!($name), "\0").as_bytes())? },)*
                    // SAFETY: as above.
                    $($maybe: unsafe { handle.get(concat!(stringify!($maybe), "\0").as_bytes()) }.ok().map(|found| *found),)*
                })
            }
        }
    };
}
