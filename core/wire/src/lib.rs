//! Every header that crosses a wire or a shared ring, as a checked view and a plain value.
#![forbid(unsafe_code)]
