#include "library/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <variant>

#include "core/errors/error.h"
#include "core/text/json.h"
#include "harmony/json_text.h"
#include "harmony/render.h"
#include "library/options.h"
#include "library/status.h"
#include "turn/new_request.h"

namespace nibble::library {
namespace {

constexpr std::string_view kFunctions{"functions."};

nibble_finish finish_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopToken:
      return NIBBLE_FINISH_STOP_TOKEN;
    case FinishReason::kStopString:
      return NIBBLE_FINISH_STOP_STRING;
    case FinishReason::kMaxTokens:
      return NIBBLE_FINISH_MAX_TOKENS;
    case FinishReason::kContextFull:
      return NIBBLE_FINISH_CONTEXT_FULL;
    case FinishReason::kCancelled:
      return NIBBLE_FINISH_CANCELLED;
  }
  return 0;
}

}  // namespace

Session::Session(std::shared_ptr<LoadedModel> model, Settings settings)
    : model_(std::move(model)), settings_(std::move(settings)) {
  // Keep the first turn's date: a new date would change the prompt and miss the prefix cache.
  if (!settings_.date) settings_.date = harmony::today();
}

Session::~Session() { cancel(); }

void Session::check_idle() const {
  if (running_ || !pieces_.empty())
    throw Refused(NIBBLE_BUSY, "the session's answer has not ended: take its events, the last one too");
}

void Session::set(std::string_view name, const char* value) {
  check_idle();
  const Setting& setting = find_session_option(name);
  if (value)
    nibble::set(settings_, setting, need_text(value, "value"), name);
  else
    reset(settings_, setting);
  if (!settings_.date) settings_.date = harmony::today();
  if (name == "json-schema" || name == "grammar") source_.reset();
}

void Session::set_form(std::optional<grammar::Source> source) {
  check_idle();
  source_ = std::move(source);
}

void Session::set_tools(std::string_view json) {
  check_idle();
  Json request{{"messages", Json::array()}};
  request["tools"] = harmony::parse_json(json, "the list of tools");
  tools_ = harmony::chat_from_json(request).tools;
}

void Session::add(std::string_view role, std::string_view text) {
  check_idle();
  const std::optional<harmony::Role> known = harmony::role_of(role);
  if (!known || *known == harmony::Role::kTool)
    throw InputError(
        "the role is '{}': expected system, developer, user or assistant; nibble_session_add_json() adds the "
        "result of a call",
        role);
  harmony::ChatMessage message;
  message.role = *known;
  message.text = text;
  messages_.push_back(std::move(message));
}

void Session::add_json(std::string_view json) {
  check_idle();
  const Json value = harmony::parse_json(json, "the message");
  messages_.push_back(harmony::chat_message_from_json({value, "message"}));
}

void Session::clear() {
  check_idle();
  messages_.clear();
}

AnswerForm Session::form() const {
  if (!source_) return answer_form(settings_);
  Settings settings = settings_;
  settings.json_schema.reset();
  settings.grammar.reset();
  AnswerForm form = answer_form(settings);
  form.source = *source_;
  return form;
}

std::vector<TokenId> Session::prompt() const {
  harmony::Chat chat = new_chat(settings_, form());
  chat.messages = messages_;
  chat.tools = tools_;
  return harmony::render(harmony::to_conversation(chat), model_->tokenizer(), {}).tokens;
}

size_t Session::count_tokens() const {
  check_idle();
  return prompt().size();
}

void Session::answer() {
  check_idle();
  if (messages_.empty()) throw InputError("the session has no messages: add one first");
  GenerationRequest request =
      make_request(prompt(), settings_, model_->config(), model_->tokenizer(), model_->context());
  std::vector<harmony::TurnTool> tools;
  for (const harmony::Tool& tool : tools_)
    tools.push_back({.recipient = fmt::format("{}{}", kFunctions, tool.name)});
  request.constraint = model_->constraint(form(), /*is_chat=*/true, std::move(tools));
  drops_question_ = false;
  start(std::move(request), /*is_chat=*/true);
}

void Session::send(std::string_view text) {
  add("user", text);
  try {
    answer();
  } catch (...) {
    messages_.pop_back();
    throw;
  }
  drops_question_ = true;
}

void Session::send_tokens(std::span<const TokenId> tokens) {
  check_idle();
  GenerationRequest request = make_request({tokens.begin(), tokens.end()}, settings_, model_->config(),
                                           model_->tokenizer(), model_->context());
  request.stop.strings = settings_.stop;
  request.constraint = model_->constraint(form(), /*is_chat=*/false, {});
  drops_question_ = false;
  start(std::move(request), /*is_chat=*/false);
}

void Session::start(GenerationRequest request, bool is_chat) {
  const auto on_text = [this](harmony::AnswerPart part, std::string_view text) {
    // A call becomes an event when it is complete.
    if (part != harmony::AnswerPart::kCall)
      add_piece(part == harmony::AnswerPart::kAnswer ? NIBBLE_EVENT_TEXT : NIBBLE_EVENT_REASONING, text);
  };
  auto inbox = std::make_shared<Inbox>();
  AnswerReader reader =
      is_chat ? AnswerReader(model_->tokenizer(), settings_.stop, on_text) : AnswerReader(on_text);
  const RequestId id = model_->submit(std::move(request), inbox);
  running_.emplace(Running{id, std::move(inbox), std::move(reader), is_chat});
  tokens_.clear();
  const std::scoped_lock lock(cancel_mutex_);
  cancellable_ = id;
}

void Session::cancel() {
  const std::scoped_lock lock(cancel_mutex_);
  if (cancellable_) model_->cancel(*cancellable_);
}

Session::Piece& Session::add_piece(nibble_event_type type, std::string_view text) {
  Piece& piece = pieces_.emplace_back();
  piece.event.type = type;
  piece.text = text;
  piece.tokens = std::exchange(tokens_, {});
  return piece;
}

void Session::read(Event event) {
  if (auto* token = std::get_if<TokenEvent>(&event)) {
    if (running_->has_stopped) return;
    tokens_.push_back(token->token.token);
    if (running_->reader.push(std::move(*token))) return;
    running_->has_stopped = true;
    model_->cancel(running_->request);
  } else if (auto* finished = std::get_if<FinishedEvent>(&event)) {
    finish(std::move(*finished));
  } else {
    const FailedEvent failed = std::get<FailedEvent>(std::move(event));
    if (drops_question_) messages_.pop_back();
    pieces_.clear();
    end();
    throw Refused(failed.is_requests_own ? NIBBLE_BAD_INPUT : NIBBLE_FAILED, failed.message.c_str());
  }
}

void Session::finish(FinishedEvent event) {
  const bool is_chat = running_->is_chat;
  const Answer answer = running_->reader.finish(std::move(event));
  if (is_chat) keep(answer);
  nibble_event& last = add_piece(NIBBLE_EVENT_FINISHED, "").event;
  last.finish = finish_of(answer.finished.reason);
  last.num_prompt_tokens = answer.finished.num_prompt_tokens;
  last.num_cached_tokens = answer.finished.num_cached_tokens;
  last.num_output_tokens = answer.finished.num_output_tokens;
  last.prefill_seconds = answer.finished.prefill_seconds;
  last.decode_seconds = answer.finished.decode_seconds;
  end();
}

void Session::end() {
  running_.reset();
  const std::scoped_lock lock(cancel_mutex_);
  cancellable_.reset();
}

void Session::add_call(const harmony::ParsedMessage& call, harmony::ChatMessage& said) {
  std::string_view recipient = *call.message.recipient;
  if (recipient.starts_with(kFunctions)) recipient.remove_prefix(kFunctions.size());
  Piece& piece = add_piece(NIBBLE_EVENT_CALL, call.message.text);
  piece.call_name = recipient;
  piece.call_id = fmt::format("call_{}", ++num_calls_);
  said.tool_calls.push_back({.id = piece.call_id, .name = piece.call_name, .arguments = piece.text});
}

void Session::keep(const Answer& answer) {
  harmony::ChatMessage said;
  said.role = harmony::Role::kAssistant;
  said.text = answer.text;
  said.reasoning = answer.reasoning;
  for (const harmony::ParsedMessage& message : answer.messages)
    if (message.ends_in_call && harmony::part_of(message.message) == harmony::AnswerPart::kCall)
      add_call(message, said);
  if (!said.text.empty() || !said.tool_calls.empty())
    messages_.push_back(std::move(said));
  else if (drops_question_)
    messages_.pop_back();
}

bool Session::next_event(int timeout_ms, nibble_event* event) {
  using Clock = std::chrono::steady_clock;
  if (!running_ && pieces_.empty()) throw InputError("no answer runs: start one first");
  std::optional<Clock::time_point> deadline;
  if (timeout_ms >= 0) deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (pieces_.empty()) {
    std::optional<Event> arrived = running_->inbox->take(deadline);
    if (!arrived) return false;
    read(std::move(*arrived));
  }
  given_ = std::move(pieces_.front());
  pieces_.pop_front();
  nibble_event& filled = given_.event;
  filled.struct_bytes = event->struct_bytes;
  filled.text = given_.text.c_str();
  filled.text_bytes = given_.text.size();
  filled.call_name = given_.call_name.c_str();
  filled.call_id = given_.call_id.c_str();
  filled.tokens = given_.tokens.data();
  filled.num_tokens = given_.tokens.size();
  std::memcpy(event, &filled, std::min(event->struct_bytes, sizeof filled));
  return true;
}

}  // namespace nibble::library
