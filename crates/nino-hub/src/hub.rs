//! The server's side of a download: which files are meant, how large they are, where they are.

use crate::address::Address;
use crate::answer::{AnswerError, Facts, Listing, RemoteFile};
use crate::attempts::Attempts;
use crate::choose::{Choice, choose};
use crate::client::{Answer, Client, Credentials, Method, Request, Token};
use crate::download::{self, Fetched};
use crate::hash::sha256_of;
use crate::names::{Commit, Etag, FileName, RepoName, Revision};
use crate::target::{Files, Target};
use crate::{HubError, Limits, Watcher};
use std::path::{Path, PathBuf};

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// Where to download from and to.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// The server, if it is not Hugging Face's own.
    pub endpoint: Option<String>,
    pub token: Option<String>,
    /// The cache of Hugging Face's tools.
    pub cache: PathBuf,
    pub limits: Limits,
    /// Whether to use the proxy that the environment names.
    pub proxy: bool,
}

/// A server and the cache that its files go to.
pub struct Hub {
    client: Client,
    endpoint: Address,
    cache: PathBuf,
}

/// What would be downloaded.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The repository, or what stands for it in the cache.
    pub repo: RepoName,
    pub revision: Revision,
    pub files: Vec<Planned>,
}

/// One file of a plan.
#[derive(Clone, Debug)]
pub struct Planned {
    pub file: FileName,
    pub size: u64,
    /// Bytes of it that are in the cache already.
    pub have: u64,
    pub(crate) repo: RepoName,
    pub(crate) revision: Revision,
    pub(crate) commit: Commit,
    pub(crate) content: Content,
    pub(crate) source: Address,
}

/// How a content is known before it is there.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// By the server's ETag, which is a hash for what Hugging Face serves.
    Known(Etag),
    /// By this hash of the address and of what the server says of the file. The content gets the
    /// name of its own SHA-256 when it is there.
    At {
        key: Etag,
        /// Whether the server names contents, so that an unfinished one can be gone on with.
        can_resume: bool,
    },
}

impl Plan {
    pub fn size(&self) -> u64 {
        self.files.iter().map(|f| f.size).sum()
    }

    /// Bytes that are still to come.
    pub fn missing(&self) -> u64 {
        self.files
            .iter()
            .map(|f| f.size.saturating_sub(f.have))
            .sum()
    }
}

impl Hub {
    pub fn new(options: HubOptions) -> Result<Hub, HubError> {
        let text = options.endpoint.as_deref().unwrap_or(DEFAULT_ENDPOINT);
        let endpoint = Address::parse(text).map_err(|why| HubError::Endpoint {
            text: text.to_owned(),
            why,
        })?;
        let token = options.token.as_deref().map(Token::new).transpose()?;
        let credentials = token.map(|token| Credentials {
            token,
            origin: endpoint.origin().clone(),
        });
        Ok(Hub {
            client: Client::new(options.limits, credentials, options.proxy),
            endpoint,
            cache: options.cache,
        })
    }

    /// What a person means by `text`.
    pub fn target(&self, text: &str) -> Result<Target, HubError> {
        Ok(Target::parse(text, &self.endpoint)?)
    }

    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// The files of a target and their sizes. `revision` wins over the target's own.
    pub fn plan(
        &self,
        target: &Target,
        revision: Option<&Revision>,
        choice: &Choice,
        watcher: &dyn Watcher,
    ) -> Result<Plan, HubError> {
        match target {
            Target::Url { address, file } => self.plan_url(address, file, watcher),
            Target::Repo {
                repo,
                revision: own,
                files,
                alias,
            } => {
                let revision = revision.or(own.as_ref()).cloned();
                let revision = match revision {
                    Some(revision) => revision,
                    None => Revision::new("main")?,
                };
                let mut plan = self.plan_repo(repo, revision, files, choice, watcher)?;
                for (repo, files) in alias.map_or(&[][..], |alias| alias.beside) {
                    let (repo, main) = (RepoName::new(repo)?, Revision::new("main")?);
                    let files = files.iter().map(|file| FileName::new(file));
                    let files = Files::Named(files.collect::<Result<_, _>>()?);
                    let other = self.plan_repo(&repo, main, &files, choice, watcher)?;
                    plan.files.extend(other.files);
                }
                Ok(plan)
            }
        }
    }

    /// An error if the disk has no room for what is missing.
    pub fn check_room(&self, plan: &Plan) -> Result<(), HubError> {
        download::check_room(&self.cache, plan.missing())
    }

    /// Downloads a file unless it is in the cache, and checks it either way.
    pub fn fetch(&self, planned: &Planned, watcher: &dyn Watcher) -> Result<Fetched, HubError> {
        download::fetch(&self.client, &self.cache, planned, watcher)
    }

    fn plan_repo(
        &self,
        repo: &RepoName,
        revision: Revision,
        files: &Files,
        choice: &Choice,
        watcher: &dyn Watcher,
    ) -> Result<Plan, HubError> {
        let folder = match files {
            Files::Named(names) => {
                let facts = |file: &FileName| self.planned(repo, &revision, file, None, watcher);
                let files: Result<_, _> = names.iter().map(facts).collect();
                return Ok(Plan {
                    repo: repo.clone(),
                    files: files?,
                    revision,
                });
            }
            Files::Choose => None,
            Files::Below(folder) => Some(folder),
        };
        let listing = self.list(repo, &revision, watcher)?;
        let chosen = choose(repo, &listing.files, folder, choice)?;
        let mut files = Vec::new();
        for remote in chosen {
            let facts = facts_of(remote, &listing);
            files.push(self.planned(repo, &revision, &remote.name, facts, watcher)?);
        }
        Ok(Plan {
            repo: repo.clone(),
            revision,
            files,
        })
    }

    /// The files of a repository.
    fn list(
        &self,
        repo: &RepoName,
        revision: &Revision,
        watcher: &dyn Watcher,
    ) -> Result<Listing, HubError> {
        let parts = ["api", "models"]
            .into_iter()
            .chain(repo.as_str().split('/'));
        let parts = parts.chain(["revision", revision.as_str()]);
        let address = self.endpoint.below(parts).with_query("blobs=true");
        let url = address.to_string();
        let attempts = Attempts::new(&self.client.limits, watcher, repo.as_str());
        attempts.until(|| {
            let request = Request {
                method: Method::Get,
                address: address.clone(),
                start: 0,
            };
            let mut answer = self.client.ask(request, watcher, |_| false)?;
            let most = self.client.limits.most_list_bytes;
            let json = answer.body.read_all(most, watcher)?;
            Listing::of_json(&json).map_err(|e| bad_answer(&url, "list of files", &e))
        })
    }

    /// A file of a repository. The server is asked about it unless `facts` are known.
    fn planned(
        &self,
        repo: &RepoName,
        revision: &Revision,
        file: &FileName,
        facts: Option<Facts>,
        watcher: &dyn Watcher,
    ) -> Result<Planned, HubError> {
        let below = |at| {
            let parts = repo.as_str().split('/').chain(["resolve", at]);
            self.endpoint.below(parts.chain(file.parts()))
        };
        let facts = match facts {
            Some(facts) => facts,
            None => self.facts(file, &below(revision.as_str()), watcher)?,
        };
        // A branch may move on while files are downloaded, a commit does not.
        let at = facts
            .commit
            .as_ref()
            .map_or(revision.as_str(), Commit::as_str);
        let source = below(at);
        let commit = match facts.commit {
            Some(commit) => commit,
            // A server without commits has one state of each revision.
            None => Commit::new(&revision.as_str().replace('/', "-"))?,
        };
        self.check_size(file, facts.size)?;
        Ok(download::with_cached(
            &self.cache,
            Planned {
                file: file.clone(),
                size: facts.size,
                have: 0,
                repo: repo.clone(),
                revision: revision.clone(),
                commit,
                content: Content::Known(facts.etag),
                source,
            },
        ))
    }

    fn facts(
        &self,
        file: &FileName,
        source: &Address,
        watcher: &dyn Watcher,
    ) -> Result<Facts, HubError> {
        let attempts = Attempts::new(&self.client.limits, watcher, file.as_str());
        attempts.until(|| {
            let request = Request {
                method: Method::Head,
                address: source.clone(),
                start: 0,
            };
            // Redirects within the hub are followed. The one to its storage is not: only the hub's
            // own answers know the hash.
            let mut commit = None;
            let is_enough = |answer: &Answer| {
                commit = commit
                    .take()
                    .or(answer.headers.get("x-repo-commit").map(str::to_owned));
                let location = answer.headers.get("location").unwrap_or_default();
                let next = answer.address.redirected(location);
                let leaves = next.is_ok_and(|n| n.origin() != source.origin());
                leaves || answer.headers.get("x-linked-etag").is_some()
            };
            let answer = self.client.ask(request, watcher, is_enough)?;
            let url = source.to_string();
            let mut facts =
                Facts::of_headers(&answer.headers).map_err(|e| bad_answer(&url, "answer", &e))?;
            if let (None, Some(commit)) = (&facts.commit, commit) {
                let commit = Commit::new(&commit);
                facts.commit = Some(commit.map_err(|e| bad_answer(&url, "answer", &e.into()))?);
            }
            Ok(facts)
        })
    }

    fn plan_url(
        &self,
        address: &Address,
        file: &FileName,
        watcher: &dyn Watcher,
    ) -> Result<Plan, HubError> {
        let url = address.to_string();
        let attempts = Attempts::new(&self.client.limits, watcher, file.as_str());
        let answer = attempts.until(|| {
            let request = Request {
                method: Method::Head,
                address: address.clone(),
                start: 0,
            };
            self.client.ask(request, watcher, |_| false)
        })?;
        let is_page = answer.headers.get("content-type");
        if is_page.is_some_and(|t| t.to_lowercase().starts_with("text/html")) {
            return Err(HubError::BadAnswer {
                url,
                what: "answer",
                why: "it is a web page and not a file".to_owned(),
            });
        }
        let size = answer.headers.get("content-length");
        let size = size.and_then(|s| s.parse().ok());
        let size: u64 = size.ok_or_else(|| HubError::Missing {
            url: url.clone(),
            what: "length",
        })?;
        self.check_size(file, size)?;
        let etag = answer.headers.get("etag").filter(|e| !e.starts_with("W/"));
        let modified = answer.headers.get("last-modified").unwrap_or_default();
        let state = etag.unwrap_or(modified);
        let key = sha256_of(&format!("{}\n{state}\n{size}", address.full()));
        let repo = repo_of(address, file)?;
        let revision = Revision::new("main")?;
        let planned = Planned {
            file: file.clone(),
            size,
            have: 0,
            repo: repo.clone(),
            revision: revision.clone(),
            commit: Commit::new(&key[..40])?,
            content: Content::At {
                key: Etag::new(&key)?,
                can_resume: etag.is_some(),
            },
            source: address.clone(),
        };
        Ok(Plan {
            repo,
            revision,
            files: vec![download::with_cached(&self.cache, planned)],
        })
    }

    fn check_size(&self, file: &FileName, size: u64) -> Result<(), HubError> {
        let most = self.client.limits.most_file_bytes;
        if size > most {
            return Err(HubError::TooLarge {
                file: file.to_string(),
                size,
                most,
            });
        }
        Ok(())
    }
}

/// What a list of files says of one of them, if it says all.
fn facts_of(remote: &RemoteFile, listing: &Listing) -> Option<Facts> {
    Some(Facts {
        etag: remote.hash.clone()?,
        size: remote.size?,
        commit: Some(listing.commit.clone()?),
    })
}

/// `host/name`, under which the library finds the file.
fn repo_of(address: &Address, file: &FileName) -> Result<RepoName, HubError> {
    let plain = |text: &str| {
        let known = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
        let text: String = text
            .chars()
            .map(|c| if known(c) { c } else { '_' })
            .collect();
        text.replace("..", "_").chars().take(90).collect::<String>()
    };
    let name = file
        .as_str()
        .rsplit_once('.')
        .map_or(file.as_str(), |(stem, _)| stem);
    let name = format!("{}/{}", plain(address.origin().host()), plain(name));
    Ok(RepoName::new(&name)?)
}

fn bad_answer(url: &str, what: &'static str, error: &AnswerError) -> HubError {
    match error {
        AnswerError::Missing(what) => HubError::Missing {
            url: url.to_owned(),
            what,
        },
        _ => HubError::BadAnswer {
            url: url.to_owned(),
            what,
            why: error.to_string(),
        },
    }
}
