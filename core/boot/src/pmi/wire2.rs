//! PMI-2: a frame is six decimal digits (blank-padded on the left) with the length of what follows,
//! `cmd=name;key=value;key=value;`; a `;` inside a value is doubled.

use super::wire1::{Command, MAX_LINE};

/// Bytes of the length field.
pub const HEADER: usize = 6;

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadFrame {
    /// The first six bytes are no length, or it is beyond [`MAX_LINE`].
    Length,
    /// The body is not UTF-8 or not `cmd=...;key=value;`.
    Body,
}

/// The frame for `command`.
pub fn emit(command: &Command) -> String {
    let mut body = String::new();
    for (key, value) in std::iter::once(("cmd", command.name.as_str())).chain(command.fields()) {
        body.push_str(key);
        body.push('=');
        body.push_str(&value.replace(';', ";;"));
        body.push(';');
    }
    format!("{:>HEADER$}{body}", body.len())
}

/// The length of the body from the frame's first six bytes.
pub fn body_length(header: &[u8; HEADER]) -> Result<usize, BadFrame> {
    let text = std::str::from_utf8(header).map_err(|_| BadFrame::Length)?;
    text.trim().parse().ok().filter(|&length| length <= MAX_LINE).ok_or(BadFrame::Length)
}

/// Reads a frame's body.
pub fn parse(body: &[u8]) -> Result<Command, BadFrame> {
    let text = std::str::from_utf8(body).map_err(|_| BadFrame::Body)?;
    let mut fields = split_fields(text.trim_end_matches(['\0', '\n'])).into_iter();
    let first = fields.next().ok_or(BadFrame::Body)?;
    let name = first.strip_prefix("cmd=").ok_or(BadFrame::Body)?;
    let mut command = Command::new(name);
    for field in fields {
        let (key, value) = field.split_once('=').ok_or(BadFrame::Body)?;
        command = command.with(key, value);
    }
    Ok(command)
}

/// Splits at single `;`, turning doubled ones back into one.
fn split_fields(text: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let mut field = String::new();
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            ';' if rest.next_if_eq(&';').is_some() => field.push(';'),
            ';' => fields.push(std::mem::take(&mut field)),
            _ => field.push(letter),
        }
    }
    if !field.is_empty() {
        fields.push(field);
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_frame_looks_as_the_protocol_says() {
        let command = Command::new("kvs-put").with("key", "a").with("value", "x;y");
        assert_eq!(emit(&command), "    29cmd=kvs-put;key=a;value=x;;y;");
    }

    #[test]
    fn lengths_out_of_bounds_are_refused() {
        assert_eq!(body_length(b"    12"), Ok(12));
        assert_eq!(body_length(b"000012"), Ok(12));
        assert_eq!(body_length(b"999999"), Err(BadFrame::Length));
        assert_eq!(body_length(b"ab  12"), Err(BadFrame::Length));
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(name in "[a-z-]{1,12}", fields in prop::collection::vec(("[a-z]{1,8}", "[!-:<-~][ -~]{0,20}"), 0..6)) {
            let command = fields.iter().fold(Command::new(&name), |command, (key, value)| command.with(key, value));
            let frame = emit(&command);
            let header: [u8; HEADER] = frame.as_bytes()[..HEADER].try_into().expect("six bytes");
            prop_assert_eq!(body_length(&header), Ok(frame.len() - HEADER));
            prop_assert_eq!(parse(&frame.as_bytes()[HEADER..]), Ok(command));
        }

        #[test]
        fn no_bytes_panic(body in prop::collection::vec(any::<u8>(), 0..100), header in any::<[u8; HEADER]>()) {
            let _ = parse(&body);
            let _ = body_length(&header);
        }
    }
}
