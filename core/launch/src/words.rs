//! What ranks of a node are told through their memory besides deaths ([`Word`]).

use std::fs::File;
use std::os::fd::OwnedFd;

use weft_shm::Word;

/// Tells the `ranks` ranks that share this memory a word.
///
/// Errors: why a verdict or a farewell cannot be told, so that somebody may wait for ever. Without a question two ranks wait as if
/// nobody had asked it, which is no error.
pub(crate) fn tell(memory: &OwnedFd, ranks: usize, word: Word) -> Result<(), String> {
    let told = match memory.try_clone() {
        Ok(memory) => {
            weft_shm::tell(&File::from(memory), ranks as u32, word).map_err(|error| error.text().to_owned())
        }
        Err(error) => Err(error.to_string()),
    };
    match told {
        Ok(false) => Err("they have been told too much already".to_owned()),
        Ok(true) => Ok(()),
        Err(why) => Err(why),
    }
    .or_else(|why| if matches!(word, Word::Asks { .. }) { Ok(()) } else { Err(why) })
}
