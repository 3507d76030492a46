//! Modules in Tcl. A line of a block counts like any other: whichever branch is taken, it names the directory.

use super::{DEPTH, LENGTH, Modulefile, Values, join};

/// Commands that change the variables they name in ways that are not followed.
const CHANGING: &[&str] =
    &["append", "foreach", "incr", "lappend", "lassign", "regexp", "regsub", "scan", "unset", "upvar"];

/// Commands that run the blocks they are given, or some of them.
const BLOCKS: &[&str] = &["catch", "else", "elseif", "foreach", "if", "while"];

pub fn read(text: &str) -> Modulefile {
    let mut found = Modulefile::default();
    script(&text.replace("\\\n", " "), &mut Values::default(), &mut found, 0);
    found
}

fn script(text: &str, values: &mut Values, found: &mut Modulefile, depth: usize) {
    for line in text.lines() {
        let is_before = |c: char| c.is_whitespace() || c == '}';
        let mut rest = line.trim_start_matches(is_before);
        let mut opened = 0;
        while !rest.is_empty() && !rest.starts_with('#') {
            let (words, after) = words(rest, values, 0);
            command(&words, values, found, depth);
            // A block that ends on another line begins with commands. That is known at its end only, and not asked
            // again and again for a line of brackets.
            let inside = after.strip_prefix('{');
            opened += usize::from(inside.is_some());
            if opened > DEPTH {
                break;
            }
            rest = inside.unwrap_or(after).trim_start_matches(is_before);
        }
    }
}

/// A word, and none where its value is not written out.
type Word = Option<String>;

fn command(words: &[Word], values: &mut Values, found: &mut Modulefile, depth: usize) {
    let Some((Some(name), arguments)) = words.split_first() else { return };
    if depth < DEPTH && BLOCKS.contains(&name.as_str()) {
        for block in arguments.iter().flatten() {
            script(block, values, found, depth + 1);
        }
    }
    match (name.as_str(), arguments) {
        ("set", [Some(variable), value]) => values.assign(variable.trim_start_matches(':'), value.clone()),
        ("setenv" | "pushenv", [Some(variable), value]) => {
            values.assign(&format!("env({variable})"), value.clone());
            if let Some(value) = value {
                found.set(variable.clone(), value.clone());
            }
        }
        ("prepend-path" | "append-path", _) => added(arguments, found),
        (name, _) if CHANGING.contains(&name) => {
            for variable in arguments.iter().flatten() {
                values.assign(variable, None);
            }
        }
        _ => {}
    }
}

/// `prepend-path --delim : LD_LIBRARY_PATH /a /b`
fn added(arguments: &[Word], found: &mut Modulefile) {
    let mut arguments = arguments.iter().peekable();
    while let Some(option) = arguments.next_if(|word| word.as_ref().is_some_and(|word| word.starts_with('-')))
    {
        if matches!(option.as_deref(), Some("-d" | "--delim")) {
            arguments.next();
        }
    }
    let Some(Some(variable)) = arguments.next() else { return };
    for directories in arguments.flatten() {
        found.add(variable, directories);
    }
}

/// The words of the first command of a line, and what comes after it: from a `{` on that the line does not close.
fn words<'t>(line: &'t str, values: &Values, depth: usize) -> (Vec<Word>, &'t str) {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            ';' => return (words, &rest[1..]),
            '{' => match closing(rest, '{', '}') {
                Some(end) => (Some(rest[1..end].to_owned()), &rest[end + 1..]),
                None => return (words, rest),
            },
            '"' => substituted(&rest[1..], &|c| c == '"', values, depth),
            _ => substituted(rest, &|c| c.is_whitespace() || c == ';', values, depth),
        };
        words.push(word);
        rest = if first == '"' { after.strip_prefix('"').unwrap_or(after) } else { after };
        rest = rest.trim_start();
    }
    (words, "")
}

/// The text up to where it ends, with variables and `[file join …]` put in.
fn substituted<'t>(
    text: &'t str,
    is_end: &dyn Fn(char) -> bool,
    values: &Values,
    depth: usize,
) -> (Word, &'t str) {
    let mut word = Some(String::new());
    let mut put = |part: Option<&str>| match (&mut word, part) {
        (Some(word), Some(part)) if word.len() + part.len() <= LENGTH => word.push_str(part),
        _ => word = None,
    };
    let mut rest = text;
    while let Some(character) = rest.chars().next().filter(|character| !is_end(*character)) {
        let length = match character {
            '$' => {
                let (value, length) = variable(rest, values);
                put(value);
                length
            }
            '[' => {
                let end = closing(rest, '[', ']');
                let inside = end.map(|end| &rest[1..end]);
                let value =
                    inside.filter(|_| depth < DEPTH).and_then(|inside| joined(inside, values, depth + 1));
                put(value.as_deref());
                end.map_or(rest.len(), |end| end + 1)
            }
            '\\' => {
                let escaped = rest[1..].chars().next();
                let length = 1 + escaped.map_or(0, char::len_utf8);
                put(Some(&rest[1..length]));
                length
            }
            _ => {
                let length = character.len_utf8();
                put(Some(&rest[..length]));
                length
            }
        };
        rest = &rest[length..];
    }
    (word, rest)
}

/// `$name`, `${name}`, `$::name`, `$env(NAME)`: its value, and how long it is written.
fn variable<'v>(text: &str, values: &'v Values) -> (Option<&'v str>, usize) {
    if let Some(braced) = text.strip_prefix("${") {
        let Some(end) = braced.find('}') else { return (None, text.len()) };
        return (values.get(braced[..end].trim_start_matches(':')), end + 3);
    }
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let end = text[1..].find(|c| !is_name(c)).map_or(text.len(), |at| at + 1);
    if !text[end..].starts_with('(') {
        return (values.get(text[1..end].trim_start_matches(':')), end);
    }
    let Some(close) = text[end..].find(')') else { return (None, text.len()) };
    let end = end + close + 1;
    (values.get(text[1..end].trim_start_matches(':')), end)
}

/// What `file join` gives; nothing for any other command.
fn joined(command: &str, values: &Values, depth: usize) -> Option<String> {
    let (words, _) = words(command, values, depth);
    let words: Vec<String> = words.into_iter().collect::<Option<_>>()?;
    match words.as_slice() {
        [file, verb, parts @ ..] if file == "file" && verb == "join" => Some(join(parts)),
        _ => None,
    }
}

/// Where the bracket that the text begins with is closed.
fn closing(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0_usize;
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if character == open => depth += 1,
            _ if character == close => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"#%Module1.0
proc ModulesHelp { } { puts stderr "prepend-path LD_LIBRARY_PATH /help" }
set version 12.4 ; set root    /opt/cuda-${version}
conflict cuda
if { [file isdirectory $root/compat] } {
    prepend-path LD_LIBRARY_PATH $root/compat
}
setenv CUDA_HOME $root
setenv NAME "[exec hostname]"
prepend-path --delim : LD_LIBRARY_PATH "$root/lib64:$env(CUDA_HOME)/extras"
append-path -d ; X \
    /y
append-path LIBRARY_PATH [file join $root lib64 stubs] {/a b}
prepend-path LD_LIBRARY_PATH $::env(HOME)/lib
prepend-path LD_LIBRARY_PATH [exec find /]/lib
if {1} { set arch a
} else {
  set arch b
}
prepend-path LD_LIBRARY_PATH /opt/$arch/lib
append root /x
prepend-path LD_LIBRARY_PATH $root/lib
prepend-path LD_LIBRARY_PATH relative/lib
"#;

    #[test]
    fn reads_what_is_written_out() {
        let found = read(SAMPLE);
        let added: Vec<String> = found.added.iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(
            added,
            [
                "LD_LIBRARY_PATH /opt/cuda-12.4/compat",
                "LD_LIBRARY_PATH /opt/cuda-12.4/lib64",
                "LD_LIBRARY_PATH /opt/cuda-12.4/extras",
                "LIBRARY_PATH /opt/cuda-12.4/lib64/stubs",
                "LIBRARY_PATH /a b",
            ]
        );
        assert_eq!(found.set, [("CUDA_HOME".to_owned(), "/opt/cuda-12.4".to_owned())]);
    }

    #[test]
    fn any_text_gives_a_result() {
        for end in 0..SAMPLE.len() {
            read(&SAMPLE[..end]);
        }
        for text in [
            "$",
            "${",
            "$env(",
            "[",
            "[[[",
            "\"",
            "{",
            "\\",
            ";;;",
            "set a \\é",
            "prepend-path -d",
            "}}}",
            "set a ]",
        ] {
            read(text);
        }
        read(&format!("set a {}", "[file join ".repeat(10_000)));
        for long in ["{", "{a", "[", "if {", "if {$a} ", "$a", "\"", "set a $a$a$a;", "\\"] {
            read(&long.repeat(20_000));
        }
        let doubling: String = (0..64).map(|i| format!("set a{} $a{i}$a{i}\n", i + 1)).collect();
        read(&format!("set a0 /xxxxxxxx\n{doubling}"));
    }
}
