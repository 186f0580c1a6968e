#include "cli/terminal/prompt_spinner.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/console/output.h"
#include "core/console/terminal.h"
#include "model/batch.h"

namespace nibble::cli {
namespace {

constexpr std::string_view kFrames{"|/-\\"};
constexpr std::string_view kEraseSpinner{"\r\x1b[K"};
constexpr double kPatience{0.3};  // seconds before the spinner appears: a short wait needs no spinner

}  // namespace

int PromptProgress::done(int num_pages_held) {
  const int held = std::min(num_pages_held * kPageTokens, num_tokens_);
  if (held > held_) {
    done_ = held_;
    held_ = held;
  }
  return done_;
}

std::string spinner_line(int frame, int num_done, int num_tokens, double seconds) {
  return fmt::format("{} reading the prompt: {} of {} tokens, {:.0f} s",
                     kFrames[static_cast<size_t>(frame) % kFrames.size()], num_done, num_tokens, seconds);
}

PromptSpinner::PromptSpinner(const Engine& engine, int num_tokens, std::FILE* out)
    : engine_(engine),
      out_(understands_escapes(out) ? out : nullptr),
      num_tokens_(num_tokens),
      progress_(num_tokens) {}

void PromptSpinner::draw() {
  if (!out_) return;
  const int done = progress_.done(engine_.state().pages_held.full);
  if (watch_.seconds() < kPatience) return;
  print_to(out_, "{}{}", kEraseSpinner, spinner_line(frame_++, done, num_tokens_, watch_.seconds()));
  flush(out_);
  is_drawn_ = true;
}

void PromptSpinner::hide() {
  if (!is_drawn_) return;
  write_to(out_, kEraseSpinner);
  flush(out_);
  is_drawn_ = false;
}

}  // namespace nibble::cli
