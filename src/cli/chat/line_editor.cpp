#include "cli/chat/line_editor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termcap.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cwchar>
#include <utility>

#include "core/console/output.h"
#include "core/program/log.h"

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxHistory{1000};             // lines
constexpr size_t kMaxHistoryLine{64 << 10};  // bytes; a longer paste is not kept
// Escape sequences that switch xterm's bracketed paste mode on and off.
constexpr std::string_view kPasteBegins{"\x1b[?2004h"}, kPasteEnds{"\x1b[?2004l"};
constexpr std::string_view kEndOfPaste{"\x1b[201~"};
// Erases all text below the cursor. libedit leaves old rows there after text that is taller than the screen.
constexpr std::string_view kEraseBelow{"\x1b[J"};
constexpr int kLookMilliseconds{250};

void show(std::string_view text) {
  write_to(stdout, text);
  flush(stdout);
}

}  // namespace

bool LineEditor::works_here() {
  if (!is_terminal(stdin) || !is_terminal(stdout)) return false;
  const char* name = std::getenv("TERM");
  char entry[4096], strings[4096], *end = strings;
  if (!name || tgetent(entry, name) != 1) return false;
  // The terminal must support "ce" (erase to the end of the line), which editing needs. TERM=dumb does not.
  return tgetstr("ce", &end) != nullptr;
}

LineEditor& LineEditor::of(EditLine* editor) {
  void* self = nullptr;
  el_get(editor, EL_CLIENTDATA, &self);
  return *static_cast<LineEditor*>(self);
}

LineEditor::LineEditor(const CatchInterrupt& interrupt, fs::path history_file, Complete complete)
    : interrupt_(interrupt),
      history_file_(std::move(history_file)),
      complete_(std::move(complete)),
      // libedit takes character widths from this thread's locale, but nibble prints UTF-8 in any locale.
      locale_(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)),
      history_(history_init(), &history_end),
      editor_(nullptr, &el_end) {
  if (locale_) uselocale(locale_);
  editor_.reset(el_init("nibble", stdin, stdout, stderr));
  if (!editor_ || !history_) throw std::bad_alloc();
  EditLine* editor = editor_.get();
  el_set(editor, EL_CLIENTDATA, this);
  el_set(
      editor, EL_PROMPT, +[](EditLine* asking) { return of(asking).prompt_.data(); });
  el_set(editor, EL_EDITOR, "emacs");
  el_set(editor, EL_HIST, &history, history_.get());
  el_set(editor, EL_GETCFN, &next_character);
  el_set(editor, EL_ADDFN, "insert-paste", "Insert a pasted text", &insert_paste);
  el_set(editor, EL_ADDFN, "insert-newline", "Start a new line", &insert_newline);
  el_set(editor, EL_ADDFN, "complete", "Complete a command or a file", &insert_completion);
  el_set(editor, EL_BIND, "^I", "complete", nullptr);
  el_set(editor, EL_BIND, "\\e[200~", "insert-paste", nullptr);
  el_set(editor, EL_BIND, "\\e\\r", "insert-newline", nullptr);
  el_set(editor, EL_BIND, "\\e\\n", "insert-newline", nullptr);
  el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_source(editor, nullptr);

  HistEvent event;
  history(history_.get(), &event, H_SETSIZE, kMaxHistory);
  history(history_.get(), &event, H_SETUNIQUE, 1);
  std::error_code error;
  if (fs::file_size(history_file_, error) > 0 && !error &&
      history(history_.get(), &event, H_LOAD, history_file_.c_str()) < 0) {
    log::warn("{} is not a chat history; it is not changed, and the history of this chat is not saved",
              history_file_.string());
    history_file_.clear();
  }
}

LineEditor::~LineEditor() {
  uselocale(LC_GLOBAL_LOCALE);
  if (locale_) freelocale(locale_);
}

LineReader::Outcome LineEditor::read(std::string& line, const char* prompt) {
  prompt_ = prompt;
  was_interrupted_ = false;
  el_resize(editor_.get());
  // Enter raw mode before the prompt: the terminal would otherwise edit keys typed right after the prompt.
  el_set(editor_.get(), EL_PREP_TERM, 1);
  show(kPasteBegins);
  int num_bytes = 0;
  const char* text = el_gets(editor_.get(), &num_bytes);
  show(kPasteEnds);
  show(kEraseBelow);
  if (was_interrupted_) return LineReader::Outcome::kSignal;
  if (!text || num_bytes <= 0) {
    show("\n");  // the shell's prompt must start on a new line
    return LineReader::Outcome::kEnd;
  }
  line.assign(text, static_cast<size_t>(num_bytes));
  if (line.ends_with('\n')) line.pop_back();
  remember(line);
  return LineReader::Outcome::kLine;
}

void LineEditor::remember(const std::string& line) {
  if (line.find_first_not_of(" \t\n") == std::string::npos || line.size() > kMaxHistoryLine) return;
  HistEvent event;
  history(history_.get(), &event, H_ENTER, line.c_str());
  if (history_file_.empty()) return;
  // Write a temporary file and rename it: the old history survives a full disk or a second chat.
  fs::path unfinished = history_file_;
  unfinished += ".new";
  std::error_code error;
  fs::create_directories(fs::absolute(history_file_, error).parent_path(), error);
  // H_SAVE creates a file that only its owner can read.
  if (history(history_.get(), &event, H_SAVE, unfinished.c_str()) >= 0)
    fs::rename(unfinished, history_file_, error);
  else
    error = std::error_code(errno, std::generic_category());
  if (!error) return;
  log::warn("{}: cannot write the history: {}; the history of this chat is not saved", history_file_.string(),
            error.message());
  history_file_.clear();
}

// Restores raw mode, which the shell resets on ctrl-Z and fg, and adopts a new window size. Runs four times a
// second instead of on SIGCONT and SIGWINCH: these signals would arrive on an arbitrary thread.
void LineEditor::follow_terminal() {
  termios mode{};
  const bool is_mode_lost = tcgetattr(STDIN_FILENO, &mode) == 0 && (mode.c_lflag & ICANON) != 0;
  if (is_mode_lost) {
    el_set(editor_.get(), EL_PREP_TERM, 0);
    el_set(editor_.get(), EL_PREP_TERM, 1);
    show(kPasteBegins);
    el_set(editor_.get(), EL_REFRESH);
  }
  el_resize(editor_.get());
}

bool LineEditor::wait_for_input() {
  for (;;) {
    pollfd sources[]{{STDIN_FILENO, POLLIN, 0}, {interrupt_.descriptor(), POLLIN, 0}};
    const int num_ready = ::poll(sources, 2, kLookMilliseconds);
    if (num_ready <= 0) {
      follow_terminal();
      continue;
    }
    return sources[1].revents == 0;
  }
}

int LineEditor::next_character(EditLine* editor, wchar_t* character) {
  LineEditor& self = of(editor);
  std::mbstate_t state{};
  for (;;) {
    if (!self.wait_for_input()) {
      self.was_interrupted_ = true;
      return -1;
    }
    char byte;
    const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return static_cast<int>(count);
    const size_t result = std::mbrtowc(character, &byte, 1, &state);
    if (result == static_cast<size_t>(-2)) continue;  // incomplete character: read more bytes
    if (result == static_cast<size_t>(-1)) *character = L'\uFFFD';
    return 1;
  }
}

unsigned char LineEditor::insert_paste(EditLine* editor, int) {
  std::string text;
  wchar_t character;
  while (!text.ends_with(kEndOfPaste)) {
    if (next_character(editor, &character) != 1) return CC_ERROR;
    if (character == L'\r') character = L'\n';  // terminals end pasted lines with '\r'
    char bytes[MB_LEN_MAX];
    std::mbstate_t state{};
    const size_t length = std::wcrtomb(bytes, character, &state);
    if (length != static_cast<size_t>(-1)) text.append(bytes, length);
  }
  text.resize(text.size() - kEndOfPaste.size());
  text.erase(text.find_last_not_of('\n') + 1);
  el_insertstr(editor, text.c_str());
  return CC_REFRESH;
}

unsigned char LineEditor::insert_completion(EditLine* editor, int) {
  const LineInfo* line = el_line(editor);
  const Completion found =
      of(editor).complete_({line->buffer, static_cast<size_t>(line->cursor - line->buffer)});
  if (!found.insert.empty()) {
    el_insertstr(editor, found.insert.c_str());
    return CC_REFRESH;
  }
  if (found.choices.empty()) return CC_ERROR;
  show(fmt::format("\n{}\n", fmt::join(found.choices, "  ")));
  return CC_REDISPLAY;
}

unsigned char LineEditor::insert_newline(EditLine* editor, int) {
  el_insertstr(editor, "\n");
  return CC_REFRESH;
}

}  // namespace nibble::cli
