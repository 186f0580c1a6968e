#include "engine/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "core/errors/check.h"
#include "core/memory/with_memory.h"
#include "engine/faults.h"

namespace nibble {

struct Requests::Output {
  Sequence& sequence;
  const Slice& slice;
  const DraftTree& chain;          // the drafts that the step has checked
  std::span<SampledToken> tokens;  // sampled in row 0 (draft_tree.h) and in `chain.rows`
  const Drafts& made;              // new drafts of the backend's draft head, which follow these tokens
  const Stopwatch& step_end;
};

void Requests::add(EngineQueues::Order& order, int max_output_tokens, const Tokenizer& tokenizer) {
  Sequence& sequence = sequences_
                           .try_emplace(order.id, order.id, std::move(*order.request), max_output_tokens,
                                        tokenizer, order.submitted)
                           .first->second;
  if (sequence.wants_reports()) ++num_reporting_;
  engine_.scheduler.add(order.id, sequence.prompt(), max_output_tokens,
                        sequence.needs(engine_.drafting.launches_before_drafts()));
}

void Requests::cancel(RequestId id) {
  if (const auto found = sequences_.find(id); found != sequences_.end())
    end(id, with_memory([&] { return found->second.finish(FinishReason::kCancelled); }));
}

void Requests::fail(RequestId id, const std::string& message) {
  end(id, with_memory([&] { return FailedEvent{id, message}; }));
}

void Requests::fail_all(const std::string& message) {
  while (!sequences_.empty()) fail(sequences_.begin()->first, message);
}

void Requests::end(RequestId id, Event event) {
  if (std::holds_alternative<FinishedEvent>(event)) engine_.drafting.keep_answer(sequences_.at(id));
  engine_.drafting.remove(id);
  engine_.scheduler.remove(id);
  for (std::optional<Launched>* step : {&engine_.steps.under_way, &engine_.steps.ahead})
    if (*step) (*step)->forget(id);
  if (const auto found = sequences_.find(id); found != sequences_.end()) {
    if (found->second.wants_reports()) --num_reporting_;
    sequences_.erase(found);
  }
  engine_.queues.put(std::move(event));
}

int Requests::hand_out(Launched& step, StepResult& result, const Stopwatch& step_end) {
  NIBBLE_CHECK(step.slices.empty() || std::ssize(result.outputs) == step.num_outputs, "{} tokens for {} rows",
               result.outputs.size(), step.num_outputs);
  engine_.queues.reserve(result.outputs.size());
  const Drafts none;
  int num_tokens = 0;
  auto output = result.outputs.begin();
  for (size_t i = 0; i < step.slices.size(); ++i) {
    const Slice& slice = step.slices[i];
    const auto end_of_prompt = output + step.num_prompt_rows[i];
    const auto prompt_rows = std::exchange(output, end_of_prompt);
    const auto num_rows = slice.gives_token ? static_cast<ptrdiff_t>(1 + step.tree(i).rows.size()) : 0;
    const Drafts& made = result.drafts.empty() ? none : result.drafts[i];
    std::span<SampledToken> tokens{std::exchange(output, output + num_rows), output};
    if (!slice.sequence) continue;  // the sequence ended after this step was launched
    try {
      for (auto row = prompt_rows; row != end_of_prompt; ++row) slice.sequence->push_prompt(std::move(*row));
      if (!slice.gives_token) continue;
      std::vector<SampledToken> tokens_of_path;
      if (!step.tree(i).is_chain()) {
        for (int& row : result.kept.at(i)) row -= slice.num_tokens - slice.num_drafts;
        tokens = tokens_of_path = step.trees[i].keep(result.kept[i], tokens);
      }
      num_tokens += add_tokens({*slice.sequence, slice, step.tree(i), tokens, made, step_end});
    } catch (const std::exception& error) {
      const std::string why =
          with_memory([&] { return fmt::format("the answer could not be continued: {}", cause_of(error)); });
      if (slice.sequence) fail(slice.request, why);
    }
    if (engine_.steps.ahead && !made.tokens.empty())
      Drafting::fill_in(slice.request, made, *engine_.steps.ahead);
  }
  return num_tokens;
}

// Adds the token of row 0. Then adds the tokens of further rows, as long as their drafts equal the added
// tokens. Returns the number of tokens added, forced tokens included.
int Requests::add_tokens(const Output& output) {
  Sequence& sequence = output.sequence;
  const Slice& slice = output.slice;
  const DraftTree& chain = output.chain;
  const size_t num_known = sequence.tokens().size();
  const auto added = [&] { return sequence.tokens().subspan(num_known); };
  const auto num_right = [&] {
    const auto [end, _] =
        std::mismatch(chain.drafts.begin(), chain.drafts.end(), added().begin(), added().end());
    return static_cast<int>(end - chain.drafts.begin());
  };
  std::optional<FailedEvent> failure;
  for (size_t row = 0; row < output.tokens.size() && !sequence.end() && !failure; ++row) {
    SampledToken& token = output.tokens[row];
    if (row > 0) {
      const DraftTree::Row& checked = chain.rows[row - 1];
      const int num_before = checked.draft + 1;
      if (num_right() < num_before || std::ssize(added()) != num_before) break;
      if (checked.allowed && checked.allowed->fault()) break;  // row 0 of a later step reports the fault
    }
    if (token.token == -1) {
      failure = sequence.failure_at(static_cast<int>(sequence.tokens().size()) - 1);
      break;
    }
    NIBBLE_CHECK(token.token >= 0 && token.token < vocab_,
                 "sampled token {} is not below the vocabulary size {}", token.token, vocab_);
    add_token(output, std::move(token), row == 0);
    if (sequence.fault()) failure = FailedEvent{slice.request, *sequence.fault(), true};
  }
  const auto num_added = static_cast<int>(added().size());
  const int num_accepted = num_right();
  sequence.count_step(slice.num_drafts, num_accepted);
  if (slice.num_drafts > 0) {
    engine_.drafting.count(slice.num_drafts, num_accepted);
    if (!failure) engine_.scheduler.accept(slice.request, num_accepted);
  }
  if (failure) {
    end(slice.request, *std::move(failure));
  } else if (sequence.end()) {
    end(slice.request, sequence.finish(*sequence.end()));
  } else {
    engine_.drafting.add_tokens(slice.request, sequence, num_known, output.made);
  }
  return num_added;
}

// Adds a sampled token, then the tokens forced after it. `is_first`: whether `token` is the sequence's first
// token of the step. The scheduler awaits only that token.
void Requests::add_token(const Output& output, SampledToken token, bool is_first) {
  Sequence& sequence = output.sequence;
  if (is_first)
    engine_.scheduler.push(sequence.id(), token.token);
  else
    engine_.scheduler.append(sequence.id(), token.token);
  engine_.queues.put(sequence.push(std::move(token), output.step_end));
  for (auto next = sequence.next_forced(); next && !sequence.end(); next = sequence.next_forced()) {
    engine_.scheduler.append(sequence.id(), *next);
    engine_.queues.put(sequence.push({.token = *next}, output.step_end));
  }
}

void Requests::report_places() {
  if (num_reporting_ == 0) return;
  engine_.scheduler.for_each_waiting([&](RequestId id, int place) {
    if (const auto event = sequences_.at(id).report_place(place)) engine_.queues.put(*event);
  });
}

bool Requests::report_prompts(const std::vector<Slice>& slices, bool is_done) {
  if (num_reporting_ == 0) return false;
  bool has_event = false;
  for (const Slice& slice : slices) {
    if (!slice.sequence) continue;  // it ended after this step was launched
    const int num_done = slice.first_position + (is_done ? slice.num_tokens : 0);
    const auto event = slice.sequence->report_prompt(num_done);
    if (!event) continue;
    engine_.queues.put(*event);
    has_event = true;
  }
  return has_event;
}

}  // namespace nibble
