// Accuracy on task files: prompts with exact answers, through the same path as a chat.
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
  std::optional<bool> solved_by_checkpoint;  // what the file says the model does under greedy decoding
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

// All prompts, greedy, as many at once as the engine runs. `requests` are in the order of the tasks; `report` counts those done.
std::vector<TaskResult> run_tasks(Engine& engine, const Tokenizer& tokenizer, const std::vector<Task>& tasks,
                                  std::vector<GenerationRequest> requests, const ReportProgress& report = {});

}  // namespace nibble::cli
