// Accuracy on task files: prompts with exact answers, run through the engine like a chat.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/console/progress.h"
#include "engine/engine.h"
#include "harmony/message.h"
#include "text/tokenizer.h"

namespace nibble::cli {

struct Task {  // one line of a task file (example: tests/golden/eval/tasks.jsonl)
  std::string id, task;
  std::string answer;
  // Function that the model should call, with `answer` as arguments. nullopt: `answer` is the final text.
  std::optional<std::string> called;
  harmony::Conversation conversation;
  // Whether the original model solves the task with greedy decoding; nullopt: unknown.
  std::optional<bool> solved_by_checkpoint;
};

// Parses a task file; `origin` is its name in messages. Throws an InputError that names the line.
std::vector<Task> read_tasks(std::string_view text, const std::string& origin);

struct TaskResult {
  std::string id, task;
  bool is_solved{false};
  std::optional<bool> solved_by_checkpoint;
  std::string text;  // output of the model, control tokens included
  int num_output_tokens{0};
};

// Submits all requests at once; requests[i] belongs to tasks[i]. `report` counts finished tasks.
std::vector<TaskResult> run_tasks(Engine& engine, const Tokenizer& tokenizer, const std::vector<Task>& tasks,
                                  std::vector<GenerationRequest> requests, const ReportProgress& report = {});

}  // namespace nibble::cli
