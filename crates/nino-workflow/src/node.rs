//! What a class of nodes is: its inputs and outputs, and what it does.

use crate::host::Folder;
use crate::nodes::dynamic;
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use crate::{Host, NodeError};
use serde_json::{Value as Json, json};

/// A class of nodes.
pub struct NodeDef {
    /// The name that graphs give it.
    pub class: &'static str,
    /// The name that people see.
    pub display_name: &'static str,
    pub category: &'static str,
    pub inputs: &'static [InputDef],
    pub outputs: &'static [OutputDef],
    /// Whether it is run for its own sake. Other nodes are run where one of these needs them.
    pub is_output: bool,
    pub(crate) run: fn(&mut Call<'_, '_>) -> Result<Vec<Value>, NodeError>,
}

/// An input of a class of nodes.
#[derive(Clone, Copy, Debug)]
pub struct InputDef {
    pub name: &'static str,
    pub need: Need,
    pub kind: InputKind,
}

/// Whether an input has to be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Required,
    Optional,
    /// Optional, and no list shows it: it is of this program only, or stands below another input.
    Hidden,
    /// Shown like a required one, but given by inputs below it, such as `images.image0`.
    Grown,
}

/// What an input takes. All but sockets may be given as values.
#[derive(Clone, Copy, Debug)]
pub enum InputKind {
    /// Only what is linked to it.
    Socket(Socket),
    Int {
        default: i128,
        min: i128,
        max: i128,
        step: i128,
    },
    Float {
        default: f64,
        min: f64,
        max: f64,
        step: f64,
    },
    Text {
        default: &'static str,
        multiline: bool,
    },
    Boolean {
        default: bool,
    },
    /// One of these.
    Combo(fn() -> Vec<&'static str>),
    /// A file by its name.
    File(Folder),
}

/// An output of a class of nodes.
#[derive(Clone, Copy)]
pub struct OutputDef {
    pub name: &'static str,
    pub socket: Socket,
}

impl InputKind {
    /// The type that a link to it must have.
    pub fn socket(self) -> Socket {
        match self {
            InputKind::Socket(socket) => socket,
            InputKind::Int { .. } => Socket::Int,
            InputKind::Float { .. } => Socket::Float,
            InputKind::Text { .. } => Socket::String,
            InputKind::Boolean { .. } => Socket::Boolean,
            InputKind::Combo(_) | InputKind::File(_) => Socket::Combo,
        }
    }

    /// The value that a page fills in; `None` where there is none to choose without knowing more.
    pub fn default(self) -> Option<Json> {
        match self {
            InputKind::Socket(_) | InputKind::File(_) => None,
            InputKind::Int { default, .. } => Some(integer(default)),
            InputKind::Float { default, .. } => Some(json!(default)),
            InputKind::Text { default, .. } => Some(json!(default)),
            InputKind::Boolean { default } => Some(json!(default)),
            InputKind::Combo(options) => options().first().map(|first| json!(first)),
        }
    }

    /// The names to choose from; `None` where it is no choice, or the host does not list them.
    pub fn options(self, host: &dyn Host) -> Option<Vec<String>> {
        match self {
            InputKind::Combo(options) => Some(options().into_iter().map(str::to_owned).collect()),
            InputKind::File(folder) => host.list(folder),
            _ => None,
        }
    }

    /// What ComfyUI's `/object_info` says of it: its type, or the list to choose from, and
    /// settings.
    pub fn describe(self, host: &dyn Host) -> Json {
        if let Some(options) = self.options(host) {
            return json!([options, {}]);
        }
        let settings = match self {
            InputKind::Int {
                default,
                min,
                max,
                step,
            } => {
                let [default, min, max, step] = [default, min, max, step].map(integer);
                json!({ "default": default, "min": min, "max": max, "step": step })
            }
            InputKind::Float {
                default,
                min,
                max,
                step,
            } => json!({ "default": default, "min": min, "max": max, "step": step }),
            InputKind::Text { default, multiline } => {
                json!({ "default": default, "multiline": multiline })
            }
            InputKind::Boolean { default } => json!({ "default": default }),
            InputKind::File(_) => return json!([[], {}]),
            InputKind::Socket(_) | InputKind::Combo(_) => json!({}),
        };
        json!([self.socket().name(), settings])
    }
}

impl NodeDef {
    /// The input of that name.
    pub fn input(&self, name: &str) -> Option<&InputDef> {
        self.inputs.iter().find(|input| input.name == name)
    }

    /// Whether `/object_info` shows it: nodes that only a page knows are not there.
    pub fn is_listed(&self) -> bool {
        !matches!(self.class, "Reroute" | "PrimitiveNode" | "Note")
    }

    /// Whether it runs again though its inputs are as they were: it acts on the device, or sends
    /// pictures that nobody keeps.
    pub(crate) fn acts(&self) -> bool {
        matches!(self.class, "ROCMMemoryOptimizer" | "SaveImageWebsocket")
    }

    /// Whether it may run a network, or does something else on the device.
    pub(crate) fn has_network(&self) -> bool {
        let is_network = |input: &InputDef| {
            matches!(
                input.kind.socket(),
                Socket::Model
                    | Socket::Clip
                    | Socket::Vae
                    | Socket::ControlNet
                    | Socket::ModelPatch
                    | Socket::Guider
                    | Socket::ClipVision
                    | Socket::StyleModel
                    | Socket::UpscaleModel
                    | Socket::AudioEncoder
            )
        };
        self.acts() || self.inputs.iter().any(is_network)
    }

    /// What `/object_info` says of an input, with what a page does to it: seeds change by
    /// themselves, prompts have choices in braces, pictures can be brought, and numbers that
    /// samplers are told are not rounded.
    fn describe(&self, input: &InputDef, host: &dyn Host) -> Json {
        if let Some(described) = dynamic::describe(self.class, input.name) {
            return described;
        }
        let mut described = input.kind.describe(host);
        let of_sampler = ["/samplers", "/schedulers", "/sigmas"]
            .iter()
            .any(|end| self.category.ends_with(end));
        // The latest of them leaves it to the page.
        let of_sampler = of_sampler && self.class != "SamplerLCM";
        // Shares of a schedule are rounded like any number.
        let is_share = input.name == "denoise" || input.name.ends_with("_percent");
        let more = match input.kind {
            InputKind::Int { .. } if input.name.ends_with("seed") => {
                ("control_after_generate", json!(true))
            }
            InputKind::Float { .. } if input.name.starts_with("cfg") => ("round", json!(0.01)),
            InputKind::Float { .. } if self.class == "PerturbedAttentionGuidance" => {
                ("round", json!(0.01))
            }
            InputKind::Float { .. } if of_sampler && !is_share => ("round", json!(false)),
            InputKind::Text {
                multiline: true, ..
            } if self.class.contains("TextEncode") => ("dynamicPrompts", json!(true)),
            InputKind::Int { .. } if (self.class, input.name) == ("EmptyImage", "color") => {
                ("display", json!("color"))
            }
            InputKind::File(Folder::InputImages) => ("image_upload", json!(true)),
            InputKind::File(Folder::InputVideos) => ("video_upload", json!(true)),
            InputKind::File(Folder::InputAudio) => ("audio_upload", json!(true)),
            _ => return described,
        };
        described[1][more.0] = more.1;
        described
    }

    /// The entry of ComfyUI's `/object_info` for this class.
    pub fn object_info(&self, host: &dyn Host) -> Json {
        let of = |need: Need| {
            let is_shown = move |i: &&InputDef| {
                i.need == need || need == Need::Required && i.need == Need::Grown
            };
            self.inputs.iter().filter(is_shown)
        };
        let described = |need: Need| -> Json {
            let inputs = of(need).map(|i| (i.name.to_owned(), self.describe(i, host)));
            Json::Object(inputs.collect())
        };
        let order = |need: Need| of(need).map(|i| i.name).collect::<Vec<_>>();
        let matched = dynamic::matched(self.class);
        let types = self.outputs.iter();
        let types = types.map(|o| matched.map_or(o.socket.name(), |_| dynamic::MATCHED));
        let mut info = json!({
            "input": {
                "required": described(Need::Required),
                "optional": described(Need::Optional),
            },
            "input_order": {
                "required": order(Need::Required),
                "optional": order(Need::Optional),
            },
            "is_input_list": false,
            "output": types.collect::<Vec<_>>(),
            "output_is_list": vec![false; self.outputs.len()],
            "output_name": self.outputs.iter().map(|o| o.name).collect::<Vec<_>>(),
            "name": self.class,
            "display_name": self.display_name,
            "description": "",
            "python_module": "nodes",
            "category": self.category,
            "output_node": self.is_output,
            "has_intermediate_output": false,
            "search_aliases": [],
        });
        dynamic::flags(self.class, &mut info);
        info
    }
}

/// A whole number as JSON, which has no wider ones than these.
pub(crate) fn integer(number: i128) -> Json {
    match (u64::try_from(number), i64::try_from(number)) {
        (Ok(number), _) => json!(number),
        (_, Ok(number)) => json!(number),
        _ => json!(number as f64),
    }
}

/// Short ways to write tables of nodes.
pub(crate) mod table {
    use super::{InputDef, InputKind, Need, OutputDef};
    use crate::host::Folder;
    use crate::types::Socket;

    /// The largest side of a picture in pixels.
    pub(crate) const MAX_SIDE: i128 = 16_384;
    pub(crate) const MAX_SEED: i128 = u64::MAX as i128;

    const fn required(name: &'static str, kind: InputKind) -> InputDef {
        InputDef {
            name,
            need: Need::Required,
            kind,
        }
    }

    /// The same input, which may be left out.
    pub(crate) const fn optional(input: InputDef) -> InputDef {
        InputDef {
            need: Need::Optional,
            ..input
        }
    }

    /// The same input, which ComfyUI does not know.
    pub(crate) const fn hidden(input: InputDef) -> InputDef {
        InputDef {
            need: Need::Hidden,
            ..input
        }
    }

    pub(crate) const fn link(name: &'static str, socket: Socket) -> InputDef {
        required(name, InputKind::Socket(socket))
    }

    pub(crate) const fn int(
        name: &'static str,
        default: i128,
        (min, max): (i128, i128),
        step: i128,
    ) -> InputDef {
        let kind = InputKind::Int {
            default,
            min,
            max,
            step,
        };
        required(name, kind)
    }

    pub(crate) const fn float(
        name: &'static str,
        default: f64,
        (min, max): (f64, f64),
        step: f64,
    ) -> InputDef {
        let kind = InputKind::Float {
            default,
            min,
            max,
            step,
        };
        required(name, kind)
    }

    pub(crate) const fn seed(name: &'static str) -> InputDef {
        int(name, 0, (0, MAX_SEED), 1)
    }

    /// An input that is given by others below it.
    pub(crate) const fn grown(name: &'static str) -> InputDef {
        InputDef {
            need: Need::Grown,
            ..link(name, Socket::Any)
        }
    }

    /// A prompt.
    pub(crate) const fn prompt(name: &'static str) -> InputDef {
        prompt_of(name, "")
    }

    /// A text of several lines.
    pub(crate) const fn prompt_of(name: &'static str, default: &'static str) -> InputDef {
        let kind = InputKind::Text {
            default,
            multiline: true,
        };
        required(name, kind)
    }

    pub(crate) const fn text(name: &'static str, default: &'static str) -> InputDef {
        let kind = InputKind::Text {
            default,
            multiline: false,
        };
        required(name, kind)
    }

    pub(crate) const fn boolean(name: &'static str, default: bool) -> InputDef {
        required(name, InputKind::Boolean { default })
    }

    pub(crate) const fn combo(name: &'static str, options: fn() -> Vec<&'static str>) -> InputDef {
        required(name, InputKind::Combo(options))
    }

    pub(crate) const fn file(name: &'static str, folder: Folder) -> InputDef {
        required(name, InputKind::File(folder))
    }

    /// An output with the name of its type.
    pub(crate) const fn out(socket: Socket) -> OutputDef {
        let name = match socket {
            Socket::Model => "MODEL",
            Socket::Clip => "CLIP",
            Socket::Vae => "VAE",
            Socket::Conditioning => "CONDITIONING",
            Socket::Latent => "LATENT",
            Socket::Image => "IMAGE",
            Socket::Mask => "MASK",
            Socket::Sigmas => "SIGMAS",
            Socket::Sampler => "SAMPLER",
            Socket::Noise => "NOISE",
            Socket::Guider => "GUIDER",
            Socket::ClipVision => "CLIP_VISION",
            Socket::ClipVisionOutput => "CLIP_VISION_OUTPUT",
            Socket::ControlNet => "CONTROL_NET",
            Socket::ModelPatch => "MODEL_PATCH",
            Socket::Tracks => "TRACKS",
            Socket::StyleModel => "STYLE_MODEL",
            Socket::UpscaleModel => "UPSCALE_MODEL",
            Socket::Video => "VIDEO",
            Socket::Audio => "AUDIO",
            Socket::AudioEncoder => "AUDIO_ENCODER",
            Socket::AudioEncoderOutput => "AUDIO_ENCODER_OUTPUT",
            _ => "*",
        };
        OutputDef { name, socket }
    }

    pub(crate) const fn named(name: &'static str, socket: Socket) -> OutputDef {
        OutputDef { name, socket }
    }
}
