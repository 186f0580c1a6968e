// Accuracy on task files: prompts with exact answers, run through the engine as a chat is.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/progress.h"
#include "engine/engine.h"
#include "harmony/message.h"
#include "text/tokenizer.h"

namespace nibble::cli {

// One line of a task file (the form of tests/golden/eval/tasks.jsonl).
struct Task {
  std::string id, task;
  std::string answer;
  std::optional<std::string>
      called;  // the function whose arguments must be the answer; none: the final text must be
  harmony::Conversation conversation;
  std::optional<bool>
      solved_by_checkpoint;  // whether the original model solves it with greedy decoding; not set: the file does not say
};

// Throws InputError that names the line.
std::vector<Task> read_tasks(std::string_view text, const std::string& origin);

struct TaskResult {
  std::string id, task;
  bool is_solved{false};
  std::optional<bool> solved_by_checkpoint;
  std::string text;  // what the model said, control tokens included
  int num_output_tokens{0};
};

// Runs all requests, as many at once as the engine takes. `requests` are in the order of the tasks; `report` counts those done.
std::vector<TaskResult> run_tasks(Engine& engine, const Tokenizer& tokenizer, const std::vector<Task>& tasks,
                                  std::vector<GenerationRequest> requests, const ReportProgress& report = {});

}  // namespace nibble::cli
