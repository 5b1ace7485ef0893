//! What a message is called and what a receive asks for (sections 3.2.3 and 3.2.4).

use weft_types::{ContextId, Rank, Tag};
use weft_wire::Header;

/// What a message is matched by: context, source and tag, as the two words of its header hold them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The communicator's channel; never a wildcard.
    pub context: ContextId,
    /// Source in the upper, tag in the lower half.
    pub name: u64,
}

impl Key {
    /// The key of a message.
    #[inline]
    pub const fn new(context: ContextId, source: Rank, tag: Tag) -> Key {
        Key { context, name: ((source.0 as u64) << 32) | tag.0 as u32 as u64 }
    }

    /// The key in a header of kind Eager, EagerSync or Rts.
    #[inline]
    pub const fn of(header: Header) -> Key {
        Key { context: header.context(), name: header.name() }
    }

    /// The sender's rank.
    #[inline]
    pub const fn source(self) -> Rank {
        Rank((self.name >> 32) as u32)
    }

    /// The tag.
    #[inline]
    pub const fn tag(self) -> Tag {
        Tag(self.name as u32 as i32)
    }
}

/// What a receive or probe accepts: a key, of which source, tag or both may not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    pub(crate) context: ContextId,
    pub(crate) name: u64,
    /// Bits of the name that matter: one of [`MASKS`].
    pub(crate) mask: u64,
}

/// Bits of a name that matter in each class: exact, any tag, any source, any both.
pub(crate) const MASKS: [u64; 4] = [!0, !0 << 32, !0 >> 32, 0];

impl Pattern {
    /// A pattern; `None` is a wildcard.
    #[inline]
    pub const fn new(context: ContextId, source: Option<Rank>, tag: Option<Tag>) -> Pattern {
        let (mut name, mut mask) = (0, 0);
        if let Some(source) = source {
            (name, mask) = ((source.0 as u64) << 32, !0 << 32);
        }
        if let Some(tag) = tag {
            name |= tag.0 as u32 as u64;
            mask |= !0 >> 32;
        }
        Pattern { context, name, mask }
    }

    /// The channel.
    pub const fn context(&self) -> ContextId {
        self.context
    }

    /// The sender's rank; `None` is a wildcard.
    pub const fn source(&self) -> Option<Rank> {
        if self.mask >> 32 != 0 { Some(Rank((self.name >> 32) as u32)) } else { None }
    }

    /// The tag; `None` is a wildcard.
    pub const fn tag(&self) -> Option<Tag> {
        if self.mask as u32 != 0 { Some(Tag(self.name as u32 as i32)) } else { None }
    }

    /// The pattern that accepts exactly `key`.
    #[inline]
    pub const fn exactly(key: Key) -> Pattern {
        Pattern { context: key.context, name: key.name, mask: !0 }
    }

    /// Whether a message of this key is accepted.
    #[inline]
    pub const fn accepts(&self, key: Key) -> bool {
        key.name & self.mask == self.name && self.context.0 == key.context.0
    }
}

/// The class whose mask this is: its place in [`MASKS`].
pub(crate) const fn class_of(mask: u64) -> usize {
    let any_tag = mask as u32 == 0;
    let any_source = mask >> 32 == 0;
    (any_source as usize) << 1 | any_tag as usize
}
