//! What comes from an agent, or from who says that it is the head: frames cut anywhere are those of the whole bytes, and nothing
//! is kept of them once they are taken; what is nonsense stays nonsense. Content that is read is written again as it was read,
//! and orders name only programs that they have.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_launch::hosts::frames::{
    Answer, Broken, Frame, Kind, MAX_FRAME, Orders, Question, Reader, Word, emit, ending, parse_ending,
    parse_number,
};

/// Bytes of a frame before its content.
const PREFIX: usize = 9;

fuzz_target!(|bytes: &[u8]| {
    content(bytes);
    let Some((&cut, stream)) = bytes.split_first() else { return };
    let (whole, end) = read(stream, stream.len().max(1));
    assert_eq!(read(stream, 1 + usize::from(cut)), (whole.clone(), end));
    let mut written = Vec::new();
    whole.iter().for_each(|frame| emit(frame.kind, frame.number, &frame.content, &mut written));
    assert!(stream.starts_with(&written));
    if end.is_ok() && stream.len() >= written.len() + PREFIX {
        let rest = stream[written.len()..].first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
        let whole = |length| stream.len() - written.len() - PREFIX >= length;
        assert!(
            rest.is_some_and(|length| length <= MAX_FRAME && !whole(length)),
            "a whole frame is kept back"
        );
    }
    whole.iter().for_each(|frame| content(&frame.content));
    // Bytes that seldom begin as a frame are the content of one.
    let mut framed = Vec::new();
    emit(Kind::Start, u32::from(cut), stream, &mut framed);
    let start = Frame { kind: Kind::Start, number: u32::from(cut), content: stream.to_vec() };
    assert_eq!(read(&framed, 1 + usize::from(cut)), (vec![start], Ok(())));
});

/// The frames in `stream`, which comes in pieces of `step` bytes, and whether it ends in nonsense.
fn read(stream: &[u8], step: usize) -> (Vec<Frame>, Result<(), Broken>) {
    let (mut reader, mut frames) = (Reader::default(), Vec::new());
    for piece in stream.chunks(step) {
        reader.push(piece);
        loop {
            match reader.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(broken) => {
                    reader.push(piece);
                    assert_eq!(reader.next_frame(), Err(broken), "nothing after nonsense can be understood");
                    return (frames, Err(broken));
                }
            }
        }
    }
    (frames, Ok(()))
}

/// Whatever a frame could carry.
fn content(bytes: &[u8]) {
    if let Some(orders) = Orders::parse(bytes) {
        assert_eq!(orders.emit(), bytes);
        assert!(orders.ranks.iter().all(|rank| (rank.program as usize) < orders.programs.len()));
    }
    if let Some(question) = Question::parse(bytes) {
        assert_eq!(question.emit(), bytes);
    }
    if let Some(answer) = Answer::parse(bytes) {
        assert_eq!(answer.emit(), bytes);
    }
    if let Some(word) = Word::parse(bytes) {
        assert_eq!(&word.emit()[..], bytes);
    }
    if let Some(end) = parse_ending(bytes) {
        assert_eq!(&ending(end)[..], bytes);
    }
    if let Some(number) = parse_number(bytes) {
        assert_eq!(&number.to_le_bytes()[..], bytes);
    }
}
