// Shows on a terminal that the model reads a prompt: a spinner, and how many of its tokens are done.
#pragma once

#include <cstdio>
#include <string>

#include "core/system/clock.h"
#include "engine/engine.h"

namespace nibble::cli {

// Estimates how many prompt tokens of the only running request have been processed. The engine reserves pages
// before it runs a step, so the request's pages include tokens that are not processed yet. Therefore the
// estimate is the number of tokens that fitted into its pages before the number of pages last grew.
class PromptProgress {
 public:
  explicit PromptProgress(int num_tokens) : num_tokens_(num_tokens) {}
  int done(int num_pages_held);

 private:
  int num_tokens_;
  int held_{0}, done_{0};
};

std::string spinner_line(int frame, int num_done, int num_tokens, double seconds);

// Draws nothing if `out` is not a terminal, or is one that cannot erase a line.
class PromptSpinner {
 public:
  PromptSpinner(const Engine& engine, int num_tokens, std::FILE* out);
  ~PromptSpinner() { hide(); }
  PromptSpinner(const PromptSpinner&) = delete;
  PromptSpinner& operator=(const PromptSpinner&) = delete;

  void draw();  // call it about ten times a second
  void hide();  // erases the line; call it before any other output to the terminal

 private:
  const Engine& engine_;
  std::FILE* out_;
  int num_tokens_;
  PromptProgress progress_;
  Stopwatch watch_;
  int frame_{0};
  bool is_drawn_{false};
};

}  // namespace nibble::cli
