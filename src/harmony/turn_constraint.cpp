#include "harmony/turn_constraint.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/tokens/token_mask.h"
#include "grammar/languages/one_line.h"

namespace nibble::harmony {
namespace {

std::array<TokenId, 7> all_of(const ControlTokens& control) {
  return {control.start, control.channel, control.constrain, control.message,
          control.end,   control.call,    control.done};
}

}  // namespace

TurnConstraint::TurnConstraint(std::shared_ptr<const TurnGrammar> turn)
    : turn_(std::move(turn)), num_reasoning_left_(turn_->rules.max_reasoning_tokens) {
  begin_header(Part::kAuthor, turn_->author);
  NIBBLE_CHECK(matcher_->accept("assistant"));
}

void TurnConstraint::accept_begun(std::span<const TokenId> begun) {
  const Tokenizer& tokenizer = turn_->vocabulary.tokenizer();
  const std::optional<int> limit = std::exchange(num_reasoning_left_, std::nullopt);
  for (size_t i = 0; i < begun.size(); ++i) {
    if (accept(begun[i])) continue;
    const std::string before = tokenizer.decode(begun.first(i));
    throw InputError(
        "the message to continue does not match the required form of the answer: '{}' may not follow '{}'; "
        "change the message, or start a new one",
        grammar::one_line(tokenizer.bytes(begun[i])), grammar::one_line(before));
  }
  num_reasoning_left_ = limit;
}

void TurnConstraint::begin_header(Part part, const TurnGrammar::Text& text) {
  part_ = part;
  matcher_.emplace(text, turn_->vocabulary);
  header_.clear();
}

void TurnConstraint::begin_text() {
  part_ = Part::kText;
  const auto& text = tool_ ? tool_->arguments : is_final_ ? turn_->rules.body : nullptr;
  if (text)
    matcher_.emplace(text, turn_->vocabulary);
  else
    matcher_.reset();
}

// Finds the called tool in the header so far: "assistant to=python", "commentary to=functions.f json".
void TurnConstraint::read_recipient() {
  constexpr std::string_view kTo{" to="};
  const size_t to = header_.find(kTo);
  if (to == std::string::npos) return;
  const std::string_view name = std::string_view(header_).substr(to + kTo.size());
  tool_ = &turn_->tool(name.substr(0, name.find(' ')));
}

bool TurnConstraint::may_end_channel_with(TokenId control) const {
  if (control == turn_->control.message) return !header_.ends_with(' ');
  const bool has_type = header_.ends_with(" json") || header_.ends_with(" code");
  const bool may_have_type =
      tool_ || header_.starts_with("final") || header_.find(" to=") != std::string::npos;
  return control == turn_->control.constrain && may_have_type && !has_type;
}

TokenId TurnConstraint::terminator() const {
  const ControlTokens& control = turn_->control;
  return tool_ ? control.call : is_final_ ? control.done : control.end;
}

bool TurnConstraint::allows_control(TokenId control) const {
  if (matcher_ && !matcher_->is_complete()) return false;
  switch (part_) {
    case Part::kStart:
      return control == turn_->control.start;
    case Part::kAuthor:
      return control == turn_->control.channel;
    case Part::kChannel:
      return may_end_channel_with(control);
    case Part::kType:
      return control == turn_->control.message;
    case Part::kText:
      return control == terminator();
    case Part::kEnd:
      break;
  }
  return false;
}

void TurnConstraint::go_behind(TokenId control) {
  const TurnGrammar& turn = *turn_;
  switch (part_) {
    case Part::kStart:
      tool_ = nullptr;
      is_final_ = false;
      return begin_header(Part::kAuthor, turn.author);
    case Part::kAuthor:
      read_recipient();
      return begin_header(Part::kChannel, tool_                      ? turn.channel_of_call
                                          : num_reasoning_left_ == 0 ? turn.channel_behind_reasoning
                                                                     : turn.channel);
    case Part::kChannel:
      if (!tool_) read_recipient();
      is_final_ = header_.starts_with("final");
      is_reasoning_ = !tool_ && header_.starts_with("analysis");
      if (control == turn.control.message) return begin_text();
      return begin_header(Part::kType, tool_ ? turn.type_of_call : turn.type_of_final);
    case Part::kType:
      return begin_text();
    case Part::kText:
      matcher_.reset();
      is_reasoning_ = false;
      part_ = control == turn.control.end ? Part::kStart : Part::kEnd;
      return;
    case Part::kEnd:
      break;
  }
}

bool TurnConstraint::accept(TokenId token) {
  if (token < 0 || token >= turn_->vocabulary.tokenizer().num_tokens()) return false;
  if (allows_control(token)) {
    go_behind(token);
    return true;
  }
  if (!matcher_) {
    if (part_ != Part::kText || must_end_reasoning() || !has_token(turn_->vocabulary.ordinary_mask(), token))
      return false;
    if (is_reasoning_ && num_reasoning_left_) --*num_reasoning_left_;
    return true;
  }
  if (!matcher_->accept(token)) return false;
  if (part_ != Part::kText) header_ += turn_->vocabulary.tokenizer().bytes(token);
  return true;
}

void TurnConstraint::fill_mask(std::span<uint32_t> mask) {
  const auto ordinary = turn_->vocabulary.ordinary_mask();
  NIBBLE_CHECK(!has_ended());
  NIBBLE_CHECK(mask.size() >= ordinary.size(), "{} {}", mask.size(), ordinary.size());
  const std::span<uint32_t> own = mask.first(ordinary.size());
  if (matcher_)
    matcher_->fill_mask(own);
  else if (part_ == Part::kText && !must_end_reasoning())
    std::ranges::copy(ordinary, own.begin());
  else
    std::ranges::fill(own, 0);
  std::fill(mask.begin() + static_cast<ptrdiff_t>(own.size()), mask.end(), 0);
  for (const TokenId control : all_of(turn_->control))
    if (allows_control(control)) add_token(own, control);
}

// forced_tokens() must not change the state. A text's matcher is advanced and rolled back, because a copy
// could be large; matchers of headers are small and are copied.
std::vector<TokenId> TurnConstraint::forced_tokens() {
  std::vector<TokenId> forced;
  bool must_end = part_ == Part::kStart || must_end_reasoning();
  if (matcher_) {
    const size_t num_steps = matcher_->num_steps();
    forced = matcher_->forced_tokens();
    for (const TokenId token : forced) NIBBLE_CHECK(matcher_->accept(token), "{}", token);
    must_end = matcher_->is_finished();
    matcher_->rollback(num_steps);
  }
  if (!must_end) return forced;
  if (part_ == Part::kText && matcher_) {
    forced.push_back(terminator());
    return forced;
  }
  TurnConstraint behind = *this;
  for (const TokenId token : forced) NIBBLE_CHECK(behind.accept(token), "{}", token);
  std::vector<TokenId> controls;
  for (const TokenId control : all_of(turn_->control))
    if (behind.allows_control(control)) controls.push_back(control);
  if (controls.size() != 1) return forced;
  forced.push_back(controls[0]);
  NIBBLE_CHECK(behind.accept(controls[0]), "{}", controls[0]);
  const std::vector<TokenId> rest = behind.forced_tokens();
  forced.insert(forced.end(), rest.begin(), rest.end());
  return forced;
}

}  // namespace nibble::harmony
