// Reads lines from a terminal with editing and history (libedit). The keys are those of Emacs unless
// ~/.editrc changes them.
#pragma once

#include <histedit.h>
#include <locale.h>
#include <termios.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cli/chat/complete.h"
#include "cli/terminal/terminal.h"

namespace nibble::cli {

class LineEditor {
 public:
  // Whether stdin and stdout are a terminal that can erase to the end of a line, not a pipe or TERM=dumb.
  static bool works_here();

  // Returns what Tab does after `line`, the text before the cursor.
  using Complete = std::function<Completion(std::string_view line)>;

  // Loads the history from `history_file` and saves it after each line. An empty path: no file.
  LineEditor(const CatchInterrupt& interrupt, std::filesystem::path history_file, Complete complete);
  ~LineEditor();

  // Reads a line as LineReader::read() does, after `prompt`. Pasted text and alt-Enter add newlines to it.
  LineReader::Outcome read(std::string& line, const char* prompt);

 private:
  static LineEditor& of(EditLine* editor);
  static int next_character(EditLine* editor, wchar_t* character);
  static unsigned char insert_paste(EditLine* editor, int);
  static unsigned char insert_newline(EditLine* editor, int);
  static unsigned char insert_completion(EditLine* editor, int);

  bool wait_for_input();  // waits until stdin has input; returns false if ctrl-C is pressed first
  void follow_terminal();
  void remember(const std::string& line);

  const CatchInterrupt& interrupt_;
  std::filesystem::path history_file_;  // empty: the history is not saved
  Complete complete_;
  std::string prompt_;
  locale_t locale_;
  std::unique_ptr<History, void (*)(History*)> history_;
  std::unique_ptr<EditLine, void (*)(EditLine*)> editor_;
  bool was_interrupted_{false};
};

}  // namespace nibble::cli
