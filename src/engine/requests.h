// The engine's requests from arrival to end: gives each the tokens of its steps, and queues its events.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/system/clock.h"
#include "engine/drafting.h"
#include "engine/engine_queues.h"
#include "engine/event.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/step_batch.h"

namespace nibble {

// The steps that were launched and have not ended.
struct LaunchedSteps {
  std::optional<Launched> under_way;
  std::optional<Launched> ahead;  // launched while the step under way runs
};

class Requests {
 public:
  struct Parts {  // parts of the engine; they must outlive this object
    Scheduler& scheduler;
    Drafting& drafting;
    LaunchedSteps& steps;
    EngineQueues& queues;
  };

  // `vocab`: number of tokens of the model.
  Requests(int vocab, const Parts& engine) : vocab_(vocab), engine_(engine) {}

  Sequences& sequences() { return sequences_; }
  // Takes the request of `order`, which must have one, and queues it in the scheduler.
  void add(EngineQueues::Order& order, int max_output_tokens, const Tokenizer& tokenizer);
  // cancel() and fail() end a request: its pages are free at once, and steps under way ignore it.
  void cancel(RequestId id);  // no effect if it has ended
  void fail(RequestId id, const std::string& message);
  void fail_all(const std::string& message);  // fails running and waiting requests

  // Adds the tokens of a step that has ended. `step_end` was started when it ended. Returns the number of
  // tokens added to answers.
  int hand_out(Launched& step, StepResult& result, const Stopwatch& step_end);

  // report_places() queues PromptEvents for waiting requests. report_prompts() queues them for the prompts in
  // a step, before the step or (`is_done`) after it, and returns whether there were any.
  void report_places();
  bool report_prompts(const std::vector<Slice>& slices, bool is_done);

 private:
  struct Output;  // what a step computed for one sequence
  int add_tokens(const Output& output);
  void add_token(const Output& output, SampledToken token, bool is_first);
  void end(RequestId id, Event event);

  const int vocab_;
  const Parts engine_;
  Sequences sequences_;
  // Number of requests with reports_prompt that have not ended. If it is 0, no time is spent on reports.
  int num_reporting_{0};
};

}  // namespace nibble
