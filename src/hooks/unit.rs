//! A unit file of systemd's: its settings, and the commands of an `ExecStart=`.

/// The characters before a command that decide how systemd starts it.
const PREFIXES: &str = "-@:+!|";
const QUOTES: [char; 2] = ['"', '\''];

/// A command as a unit has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitCommand<'t> {
    pub prefix: &'t str,
    /// Its words with their quotes.
    pub words: Vec<&'t str>,
}

/// The keys and values of a section, in order. A line that ends in `\` goes on in the next one that is no comment.
pub fn settings(text: &str, section: &str) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    let mut is_inside = false;
    let mut begun = String::new();
    for line in text.trim_start_matches('\u{feff}').lines().chain([""]) {
        let line = line.trim_start();
        if line.starts_with(['#', ';']) {
            continue;
        }
        begun.push_str(line);
        let slashes = begun.len() - begun.trim_end_matches('\\').len();
        if slashes % 2 == 1 {
            begun.pop();
            begun.push(' ');
            continue;
        }
        let line = std::mem::take(&mut begun);
        let line = line.trim();
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            is_inside = name == section;
        } else if let Some((key, value)) = line.split_once('=').filter(|_| is_inside) {
            settings.push((key.trim_end().to_owned(), value.trim_start().to_owned()));
        }
    }
    settings
}

/// The commands of a value, which `;` separates; `None` where a quote does not end or has a prefix in it.
pub fn commands(value: &str) -> Option<Vec<UnitCommand<'_>>> {
    let words = words(value)?;
    let commands = words.split(|word| *word == ";");
    let commands = commands.filter(|words| !words.is_empty());
    commands.map(command).collect()
}

fn command<'t>(words: &[&'t str]) -> Option<UnitCommand<'t>> {
    let mut words = words.to_vec();
    let command = words[0].trim_start_matches(is_prefix);
    let prefix = &words[0][..words[0].len() - command.len()];
    // systemd takes quotes away first: this would be the prefix of cudarun's argument.
    let bare = command.trim_start_matches(QUOTES);
    if bare.len() < command.len() && bare.starts_with(is_prefix) {
        return None;
    }
    words[0] = command;
    // Blanks may follow the prefix.
    words.retain(|word| !word.is_empty());
    Some(UnitCommand { prefix, words })
}

fn is_prefix(character: char) -> bool {
    PREFIXES.contains(character)
}

fn words(value: &str) -> Option<Vec<&str>> {
    let mut words = Vec::new();
    let mut start = None;
    let mut quote = None;
    let mut is_escaped = false;
    for (at, c) in value.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if c.is_ascii_whitespace() && quote.is_none() {
            words.extend(start.take().map(|start| &value[start..at]));
            continue;
        } else if c == '\\' {
            is_escaped = true;
        } else if quote == Some(c) {
            quote = None;
        } else if quote.is_none() && QUOTES.contains(&c) {
            quote = Some(c);
        }
        start.get_or_insert(at);
    }
    words.extend(start.map(|start| &value[start..]));
    quote.is_none().then_some(words)
}

impl UnitCommand<'_> {
    /// The file that it starts, without quotes.
    pub fn executable(&self) -> &str {
        self.words
            .first()
            .map_or("", |word| word.trim_matches(QUOTES))
    }

    /// The command that starts the same through `own`, a word. `None` where the program would get another name than the
    /// unit gives it.
    pub fn through(&self, own: &str) -> Option<String> {
        let mut words = self.words.clone();
        if self.prefix.contains('@') {
            let name = words.get(1)?.trim_matches(QUOTES);
            let file = |path: &str| path.rsplit('/').next().map(str::to_owned);
            if file(name) != file(self.executable()) {
                return None;
            }
            words.remove(1);
        }
        let prefix = self.prefix.replace('@', "");
        let executable = self.words.first()?;
        // systemd replaces variables in arguments only.
        let executable = if prefix.contains(':') {
            (*executable).to_owned()
        } else {
            executable.replace('$', "$$")
        };
        // A verb of cudarun's can be the name of a program.
        let is_path = self.executable().starts_with(['/', '%']);
        let own = if is_path {
            own.to_owned()
        } else {
            format!("{own} --")
        };
        let arguments: String = words[1..].iter().map(|word| format!(" {word}")).collect();
        Some(format!("{prefix}{own} {executable}{arguments}"))
    }
}

/// A path as a word of a unit, in which `%`, quotes and backslashes mean something.
pub fn word(path: &str) -> String {
    let text = path.replace('%', "%%");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+%,:".contains(c);
    if text.chars().all(is_plain) {
        return text;
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
