// Questions typed on a terminal: a line that can be edited, and a history of the earlier ones, by libedit. Its keys are those
// of Emacs and of shells; ~/.editrc may change them.
#pragma once

#include <histedit.h>
#include <locale.h>
#include <termios.h>

#include <filesystem>
#include <memory>
#include <string>

#include "cli/terminal/terminal.h"

namespace nibble::cli {

class LineEditor {
 public:
  // True if standard input and output are one terminal that can move its cursor; a pipe or TERM=dumb can't.
  static bool works_here();

  // Reads the history from `history_file` and writes it back with each line; without a file it lasts as long as the editor.
  LineEditor(const CatchInterrupt& interrupt, std::filesystem::path history_file);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // As LineReader::read. A text that is pasted, or has alt-Enter in it, is one line with newlines inside.
  LineReader::Outcome read(std::string& line);

 private:
  static LineEditor& of(EditLine* editor);
  static int next_character(EditLine* editor, wchar_t* character);
  static unsigned char insert_paste(EditLine* editor, int);
  static unsigned char insert_newline(EditLine* editor, int);

  bool wait_for_input();  // false: ctrl-C came first
  void follow_terminal();
  void remember(const std::string& line);

  const CatchInterrupt& interrupt_;
  std::filesystem::path history_file_;  // empty: none
  locale_t locale_;
  std::unique_ptr<History, void (*)(History*)> history_;
  std::unique_ptr<EditLine, void (*)(EditLine*)> editor_;
  bool was_interrupted_{false};
};

}  // namespace nibble::cli
