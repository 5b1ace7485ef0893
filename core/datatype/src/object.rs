//! The datatype object: a predefined type or a committed or uncommitted derived one (sections 5.1.7 to 5.1.11).

use crate::decode::Contents;
use crate::layout::Layout;
use crate::predefined::Predefined;
use crate::signature::Signature;
use crate::typemap::TypeMap;
use crate::unnamed::{Element, Unnamed};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use weft_types::{Error, ErrorClass, Result};

/// A datatype. Clones are references to the same object; a predefined one is a plain pointer that is never counted.
#[derive(Clone, Debug)]
pub struct Datatype(Repr);

#[derive(Clone, Debug)]
enum Repr {
    Predefined(&'static Predefined),
    Derived(Arc<Derived>),
}

#[derive(Debug)]
struct Derived {
    layout: Arc<Layout>,
    map: TypeMap,
    bounds: Bounds,
    committed: AtomicBool,
    contents: Contents,
    /// The smallest count of elements whose entries overlap, found at the first receive into a type with gaps.
    overlapping: OnceLock<u64>,
    /// Set for predefined types without a name (section 2.4.3).
    unnamed: Option<(Unnamed, Element)>,
}

/// Where an element lies, in bytes from its origin (sections 5.1.6 to 5.1.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Lower bound.
    pub lb: i64,
    /// Upper bound less lower bound: the distance between consecutive elements.
    pub extent: i64,
    /// First data byte.
    pub true_lb: i64,
    /// One past the last data byte, less `true_lb`.
    pub true_extent: i64,
}

impl From<&'static Predefined> for Datatype {
    fn from(predefined: &'static Predefined) -> Datatype {
        Datatype(Repr::Predefined(predefined))
    }
}

impl PartialEq for Datatype {
    /// Whether both are the same object.
    fn eq(&self, other: &Datatype) -> bool {
        match (&self.0, &other.0) {
            (Repr::Predefined(a), Repr::Predefined(b)) => a.handle() == b.handle(),
            (Repr::Derived(a), Repr::Derived(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Datatype {
    /// The predefined type of a standard ABI value such as `weft_types::abi::MPI_INT`; `None` for other numbers
    /// and for `MPI_DATATYPE_NULL`.
    #[inline]
    pub fn predefined(abi_value: u32) -> Option<&'static Predefined> {
        Predefined::from_abi(abi_value)
    }

    pub(crate) fn derived(map: TypeMap, committed: bool, contents: Contents) -> Result<Datatype> {
        Datatype::made(map, committed, contents, None)
    }

    pub(crate) fn made(
        map: TypeMap,
        committed: bool,
        contents: Contents,
        unnamed: Option<(Unnamed, Element)>,
    ) -> Result<Datatype> {
        let span = map.bounds()?;
        let data = map.data.unwrap_or(crate::typemap::Span { low: 0, high: 0 });
        let bounds = Bounds {
            lb: span.low,
            extent: crate::typemap::sub(span.high, span.low)?,
            true_lb: data.low,
            true_extent: crate::typemap::sub(data.high, data.low)?,
        };
        let layout = Arc::new(Layout::new(map.node.clone(), bounds.extent));
        let committed = AtomicBool::new(committed);
        Ok(Datatype(Repr::Derived(Arc::new(Derived {
            layout,
            map,
            bounds,
            committed,
            contents,
            overlapping: OnceLock::new(),
            unnamed,
        }))))
    }

    /// The predefined object, when it is one.
    #[inline]
    pub fn as_predefined(&self) -> Option<&'static Predefined> {
        match self.0 {
            Repr::Predefined(predefined) => Some(predefined),
            Repr::Derived(_) => None,
        }
    }

    /// Which unnamed predefined type it is, if it is one (sections 6.9.4 and 19.1.9).
    pub fn unnamed(&self) -> Option<Unnamed> {
        self.unnamed_element().map(|(name, _)| name)
    }

    pub(crate) fn unnamed_element(&self) -> Option<(Unnamed, Element)> {
        match &self.0 {
            Repr::Predefined(_) => None,
            Repr::Derived(derived) => derived.unnamed,
        }
    }

    /// Whether the type is predefined, with or without a name: it cannot be freed.
    pub fn is_predefined(&self) -> bool {
        self.as_predefined().is_some() || self.unnamed().is_some()
    }

    /// Data bytes of one element (section 5.1.5): `None` for a predefined type this build does not support, whose
    /// size is `MPI_UNDEFINED`.
    #[inline]
    pub fn size(&self) -> Option<u64> {
        match &self.0 {
            Repr::Predefined(predefined) => predefined.is_supported().then_some(predefined.size() as u64),
            Repr::Derived(derived) => Some(derived.map.size as u64),
        }
    }

    /// Data bytes of one element, 0 for an unsupported type.
    #[inline]
    pub fn element_bytes(&self) -> usize {
        match &self.0 {
            Repr::Predefined(predefined) => predefined.size(),
            Repr::Derived(derived) => derived.layout.size,
        }
    }

    /// Lower bound, extent and true bounds.
    pub fn bounds(&self) -> Bounds {
        match &self.0 {
            Repr::Predefined(predefined) => Bounds {
                lb: 0,
                extent: predefined.extent() as i64,
                true_lb: 0,
                true_extent: predefined.true_extent() as i64,
            },
            Repr::Derived(derived) => derived.bounds,
        }
    }

    /// Whether `count` elements are one gap-free run from the buffer's address on.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        match &self.0 {
            Repr::Predefined(predefined) => predefined.is_contiguous(),
            Repr::Derived(derived) => derived.layout.is_contiguous(),
        }
    }

    /// Layout of one element.
    pub fn layout(&self) -> &Arc<Layout> {
        match &self.0 {
            Repr::Predefined(predefined) => predefined.layout(),
            Repr::Derived(derived) => &derived.layout,
        }
    }

    /// Basic elements of one element in order.
    pub fn signature(&self) -> Signature {
        match &self.0 {
            Repr::Predefined(predefined) => Signature::of(predefined),
            Repr::Derived(derived) => derived.map.signature.clone(),
        }
    }

    pub(crate) fn map(&self) -> TypeMap {
        match &self.0 {
            Repr::Predefined(predefined) => TypeMap {
                node: predefined.node(),
                signature: Signature::of(predefined),
                size: predefined.size() as i64,
                alignment: predefined.alignment() as i64,
                data: Some(crate::typemap::Span { low: 0, high: predefined.true_extent() as i64 }),
                marked: None,
            },
            Repr::Derived(derived) => derived.map.clone(),
        }
    }

    /// Name for error texts and `MPI_Type_get_name`'s default: that of a predefined type, otherwise empty.
    pub fn default_name(&self) -> &'static str {
        self.as_predefined().map_or("", Predefined::name)
    }

    /// Whether the type may be used in communication: committed or predefined (section 5.1.9).
    #[inline]
    pub fn is_committed(&self) -> bool {
        match &self.0 {
            Repr::Predefined(_) => true,
            Repr::Derived(derived) => derived.committed.load(Ordering::Relaxed),
        }
    }

    /// `MPI_Type_commit`; without effect on a committed type.
    pub fn commit(&self) {
        if let Repr::Derived(derived) = &self.0 {
            // Nothing else is published by this flag: the layout was made with the object.
            derived.committed.store(true, Ordering::Relaxed);
        }
    }

    /// How the type was made; `None` for a predefined one (`MPI_COMBINER_NAMED`).
    pub fn contents(&self) -> Option<&Contents> {
        match &self.0 {
            Repr::Predefined(_) => None,
            Repr::Derived(derived) => Some(&derived.contents),
        }
    }

    /// Fails when entries of `count` elements overlap: nothing may be received into them (section 5.1.11).
    ///
    /// # Errors
    /// `MPI_ERR_TYPE`.
    pub fn check_distinct(&self, count: u64) -> Result<()> {
        let Repr::Derived(derived) = &self.0 else { return Ok(()) };
        let fewest =
            *derived.overlapping.get_or_init(|| crate::overlap::fewest_that_overlap(&derived.layout));
        if count < fewest {
            return Ok(());
        }
        let what =
            if fewest == 1 { "one element".to_owned() } else { format!("{fewest} consecutive elements") };
        Err(Error::new(
            ErrorClass::TYPE,
            format!(
                "entries of {what} of the datatype overlap; such a datatype can be sent but not received into (section \
                 5.1.11)"
            ),
        ))
    }

    /// Fails unless values of the type can be moved by this build and the type is committed.
    #[inline]
    pub fn check_usable(&self) -> Result<()> {
        match &self.0 {
            Repr::Predefined(predefined) if predefined.is_supported() => Ok(()),
            Repr::Derived(derived) if derived.committed.load(Ordering::Relaxed) => Ok(()),
            _ => Err(self.unusable()),
        }
    }

    #[cold]
    fn unusable(&self) -> Error {
        let text = match self.as_predefined() {
            Some(predefined) => {
                format!("{} is not supported on this machine (its size is MPI_UNDEFINED)", predefined.name())
            }
            None => "the datatype is not committed; call MPI_Type_commit before using it in communication"
                .to_owned(),
        };
        Error::new(ErrorClass::TYPE, text)
    }
}
