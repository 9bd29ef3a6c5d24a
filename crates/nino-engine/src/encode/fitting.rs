//! The middle of pictures in whole latent pixels, as ComfyUI cuts them.

use crate::{Control, EngineError, Picture, VaeFile};
use std::borrow::Cow;

/// Width and height of frames, and of the part of them that is encoded.
pub(super) struct Fitting {
    pub(super) from: (usize, usize),
    pub(super) size: (usize, usize),
    multiple: usize,
}

impl Fitting {
    pub(super) fn new(vae: &VaeFile, picture: &Picture) -> Result<Fitting, EngineError> {
        let multiple = vae.pixel_multiple()?;
        // Sides of less than one latent pixel stay as they are, and are refused as such.
        let whole = |side: usize| (side - side % multiple).max(side.min(multiple));
        Ok(Fitting {
            from: (picture.width, picture.height),
            size: (whole(picture.width), whole(picture.height)),
            multiple,
        })
    }

    pub(super) fn of<'p>(&self, picture: &'p Picture) -> Cow<'p, Picture> {
        if self.size == self.from {
            return Cow::Borrowed(picture);
        }
        let at = (
            (self.from.0 - self.size.0) / 2,
            (self.from.1 - self.size.1) / 2,
        );
        Cow::Owned(picture.cropped(at, self.size.0, self.size.1))
    }

    pub(super) fn tell(&self, what: &str, vae: &VaeFile, control: &mut Control<'_>) {
        if self.size != self.from {
            control.note(format!(
                "the {what} is {}x{}, and {} takes multiples of {}: it is center-cropped to {}x{}",
                self.from.0, self.from.1, vae.name, self.multiple, self.size.0, self.size.1
            ));
        }
    }
}
