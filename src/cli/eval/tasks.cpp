#include "cli/eval/tasks.h"

#include <chrono>
#include <utility>
#include <variant>

#include "cli/terminal/json_lines.h"
#include "core/errors/error.h"
#include "core/text/json.h"
#include "harmony/chat.h"
#include "harmony/parse.h"

namespace nibble::cli {
namespace {

Task read_task(const Json& line) {
  Task task;
  task.id = line.at("id").get<std::string>();
  task.task = line.at("task").get<std::string>();
  task.answer = line.at("answer").get<std::string>();
  const std::string kind = line.at("kind").get<std::string>();
  if (kind == "call")
    task.called = "functions." + line.at("name").get<std::string>();
  else if (kind != "final")
    throw InputError("kind '{}': expected final or call", kind);
  if (line.contains("solved_by_checkpoint"))
    task.solved_by_checkpoint = line["solved_by_checkpoint"].get<bool>();
  task.conversation = harmony::to_conversation(harmony::chat_from_json(line));
  return task;
}

// Whether the last message is the expected answer, sent to the right recipient. `has_ended`: whether a stop
// token ended the output.
bool is_solved(const Task& task, const std::vector<harmony::ParsedMessage>& messages, bool has_ended) {
  if (!has_ended || messages.empty()) return false;
  const harmony::Message& message = messages.back().message;
  const bool is_addressed = task.called ? message.recipient == task.called : message.channel == "final";
  return is_addressed && message.text == task.answer;
}

struct Running {
  size_t index;
  harmony::Parser parser;
  std::vector<TokenId> tokens;
};

}  // namespace

std::vector<Task> read_tasks(std::string_view text, const std::string& origin) {
  std::vector<Task> tasks;
  for_each_json_line(text, origin, [&](const Json& line) { tasks.push_back(read_task(line)); });
  return tasks;
}

std::vector<TaskResult> run_tasks(Engine& engine, const Tokenizer& tokenizer, const std::vector<Task>& tasks,
                                  std::vector<GenerationRequest> requests, const ReportProgress& report) {
  std::vector<TaskResult> results(tasks.size());
  std::map<RequestId, Running> running;
  for (size_t i = 0; i < tasks.size(); ++i) {
    results[i].id = tasks[i].id;
    results[i].task = tasks[i].task;
    results[i].solved_by_checkpoint = tasks[i].solved_by_checkpoint;
    running.emplace(engine.submit(std::move(requests[i])),
                    Running{i, harmony::Parser(tokenizer, harmony::Role::kAssistant), {}});
  }
  Meter meter(tasks.size(), report);
  while (!running.empty()) {
    const std::optional<Event> event = engine.wait_event(std::chrono::seconds(1));
    if (!event) continue;
    if (const auto* failed = std::get_if<FailedEvent>(&*event))
      throw InputError("task '{}': {}", results[running.at(failed->request).index].id, failed->message);
    if (const auto* token = std::get_if<TokenEvent>(&*event)) {
      Running& task = running.at(token->request);
      task.parser.push(token->token.token);
      task.tokens.push_back(token->token.token);
      continue;
    }
    const auto& finished = std::get<FinishedEvent>(*event);
    Running& task = running.at(finished.request);
    task.parser.finish();
    TaskResult& result = results[task.index];
    result.is_solved =
        is_solved(tasks[task.index], task.parser.messages(), finished.reason == FinishReason::kStopToken);
    result.text = tokenizer.decode(task.tokens);
    result.num_output_tokens = static_cast<int>(task.tokens.size());
    running.erase(finished.request);
    meter.add(1);
  }
  return results;
}

}  // namespace nibble::cli
