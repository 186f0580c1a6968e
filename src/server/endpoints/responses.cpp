// POST /v1/responses and /v1/responses/input_tokens
#include "server/endpoints/responses.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <optional>
#include <vector>

#include "core/program/log.h"
#include "server/api/response_input.h"
#include "server/endpoints/endpoints.h"
#include "server/service/access_log.h"
#include "server/service/constraint.h"
#include "server/service/prompt.h"
#include "server/service/resume.h"

namespace nibble::server {
namespace {

using harmony::ChatMessage;

// Puts the conversation of the response previous_response_id before the input.
void load_previous_response(Service& service, Exchange& exchange, ResponseRequest& request) {
  if (!request.previous_id) return;
  if (const BackgroundResponse* running = find_running(service, exchange, *request.previous_id);
      running && !running->is_deleted) {
    HttpError error(400, "Response '{}' has not ended yet: wait until it has, then send this request again.",
                    *request.previous_id);
    error.param = "previous_response_id";
    throw error;
  }
  const StoredResponse* before = service.responses.find({exchange.record().key_owner, *request.previous_id});
  if (!before) {
    HttpError error(400,
                    "Previous response with id '{}' not found: it was never stored, or was dropped for newer "
                    "responses. Send its conversation as input.",
                    *request.previous_id);
    error.param = "previous_response_id";
    error.code = "previous_response_not_found";
    throw error;
  }
  exchange.reserve_more(bytes_of(before->messages));
  std::vector<ChatMessage>& messages = request.chat.messages;
  messages.insert(messages.begin(), before->messages.begin(), before->messages.end());
}

// Throws HttpError if a tool result has no open call before it. harmony/chat.h also checks this, but its
// error does not use this API's field names.
void check_results_have_calls(const std::vector<ChatMessage>& messages) {
  std::vector<std::string> open_calls;
  for (const ChatMessage& message : messages) {
    for (const harmony::ToolCall& call : message.tool_calls) open_calls.push_back(call.id);
    if (message.role != harmony::Role::kTool) continue;
    const auto found =
        message.tool_call_id ? std::ranges::find(open_calls, *message.tool_call_id) : open_calls.begin();
    if (found == open_calls.end()) {
      HttpError error(400,
                      "input has a result with call_id '{}' without an open call before it: put the call "
                      "first, or name its response in previous_response_id",
                      message.tool_call_id.value_or(""));
      error.param = "input";
      throw error;
    }
    open_calls.erase(found);
  }
}

asio::awaitable<ResponseRequest> read_request(Service& service, Exchange& exchange) {
  Json body;
  ResponseRequest request;
  co_await offload_if_long(service, exchange,
                           [&] { body = harmony::parse_json(exchange.body(), "the body"); });
  resolve_references(body, [&](const std::string& id) {
    return service.responses.find_item({exchange.record().key_owner, id});
  });
  co_await offload_if_long(service, exchange,
                           [&] { request = read_response(std::move(body), service.options.defaults); });
  check_model(service, request.params);
  apply_options(service, request.params);
  load_previous_response(service, exchange, request);
  check_results_have_calls(request.chat.messages);
  co_return request;
}

ChatPrompt prompt_of(const Service& service, const ResponseRequest& request) {
  ChatRequest chat;
  chat.params.max_tokens = request.params.max_tokens;
  chat.params.format = request.params.format;
  chat.chat = request.chat;
  return request.may_truncate ? shortened_prompt(service, chat) : chat_prompt(service, chat);
}

// Stores the response for clients that fetch it, and the conversation for clients that continue it.
void store(Service& service, const std::string& owner, const std::string& id, ResponseRequest& request,
           const Json& whole) {
  if (!request.store) return;
  StoredResponse stored{.messages = std::move(request.chat.messages),
                        .json = print(whole),
                        .input = std::move(request.input_items),
                        .output = {}};
  IgnoredFields ignored;
  for (ChatMessage& message : read_items(Field(whole["output"], "output"), ignored).messages)
    stored.messages.push_back(std::move(message));
  for (const Json& item : whole["output"])
    stored.output.push_back({item["id"].get<std::string>(), print(item)});
  service.responses.put({owner, id}, std::move(stored));
}

}  // namespace

std::string ResponseAnswer::on_token(size_t, TokenEvent& event) {
  return object_.push(answer_.push(event.token));
}

std::string ResponseAnswer::on_end(size_t, FinishReason reason, const std::string&) {
  const std::vector<AnswerDelta> last = answer_.finish();
  const bool is_complete = answer_.has_stopped() || finish_reason(reason, false) == "stop";
  return object_.end(last, is_complete && !answer_.has_cut_call());
}

namespace {

// Generates the answer. Returns the events that are still to send; nullopt if the client has disconnected.
asio::awaitable<std::optional<std::string>> run(Service& service, Exchange& exchange,
                                                ResponseRequest& request,
                                                std::vector<GenerationRequest> prompts,
                                                ResponseAnswer& answer) {
  Usage usage{.num_prompt_tokens = static_cast<int>(prompts.front().prompt.size())};
  const std::optional<TokenCounts> counts =
      co_await generate(service, exchange, std::move(prompts), request.params, answer);
  if (!counts) co_return std::nullopt;
  usage.num_output_tokens = counts->num_output;
  usage.num_cached_tokens = counts->num_cached;
  co_return answer.close(usage);
}

// Keeps a background response in Service::background while it runs. The destructor removes the response, and
// breaks off its events if they have not ended. That happens if memory runs out before the response is
// complete.
class RunningResponse {
 public:
  RunningResponse(Service& service, std::shared_ptr<BackgroundResponse> response)
      : service_(service), response_(std::move(response)) {
    service_.background.emplace(response_->exchange.id(), response_);
  }
  ~RunningResponse() {
    service_.background.erase(response_->exchange.id());
    if (const auto& events = response_->exchange.events()) events->break_off();
  }
  RunningResponse(const RunningResponse&) = delete;
  RunningResponse& operator=(const RunningResponse&) = delete;

  BackgroundResponse& operator*() const { return *response_; }

 private:
  Service& service_;
  std::shared_ptr<BackgroundResponse> response_;
};

asio::awaitable<void> run_in_background(Service& service, std::shared_ptr<const RunningResponse> running,
                                        std::vector<GenerationRequest> prompts,
                                        std::optional<HttpError> failure) {
  // `held` is destroyed when this function ends; the parameter `running` would live longer. It is a parameter
  // nevertheless, so that the response is also removed if memory for the coroutine cannot be allocated.
  const std::shared_ptr<const RunningResponse> held = std::move(running);
  BackgroundResponse& response = **held;
  const std::string id = response.exchange.id();
  ResponseObject& object = response.answer.object();
  std::string last;
  try {
    co_await response.exchange.write_events(object.start());
    if (failure) throw HttpError(*failure);
    const auto rest =
        co_await run(service, response.exchange, response.request, std::move(prompts), response.answer);
    response.exchange.set_status(rest ? 200 : kClientGone);
    last = rest ? *rest : object.cancel();
  } catch (const HttpError& error) {
    response.exchange.set_status(error.status);
    last = object.fail(error);
  } catch (const std::exception& error) {
    log::warn("{} failed: {}", id, error.what());
    response.exchange.set_status(500);
    last = object.break_off(HttpError(500, "internal error: {}", error.what()));
  }
  response.exchange.stop_waiting();  // don't wait for slow readers: store the response now
  co_await response.exchange.write_events(std::move(last));
  co_await response.exchange.end_events(response.exchange.status());
  service.metrics.observe_key(response.exchange);
  log_access(response.exchange, response.exchange.record().clock.seconds());
  service.recent_requests.add(response.exchange);
  if (!response.is_deleted)
    store(service, response.exchange.record().key_owner, id, response.request, object.json());
}

// Begins a background response. Replies with the response object; for a stream, with its events until the
// client disconnects. With `failure`, the response fails at once.
asio::awaitable<void> answer_in_background(Service& service, Exchange& exchange,
                                           std::shared_ptr<BackgroundResponse> response,
                                           std::vector<GenerationRequest> prompts,
                                           const std::optional<HttpError>& failure) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const bool is_stream = response->request.params.stream;
  const std::string& id = response->exchange.id();
  response->exchange.record() = exchange.record();
  auto running = std::make_shared<const RunningResponse>(service, response);
  std::optional<KeptAnswer::Reader> reader;  // created before the first event, so that no event is lost
  if (is_stream) {
    response->exchange.keep_events(service.kept_answers.add(executor, {exchange.record().key_owner, id}, {}));
    reader.emplace(response->exchange.events(), 0);
  }
  const std::string first = response->answer.object().queue();
  if (reader) reader->answer()->append(first);  // no need to wait: the only reader is this request
  const Json queued = response->answer.object().json();
  asio::co_spawn(executor, run_in_background(service, std::move(running), std::move(prompts), failure),
                 asio::detached);
  if (is_stream)
    co_await send_kept(service, exchange, *reader);
  else
    co_await reply_json(exchange, 200, queued);
}

}  // namespace

BackgroundResponse* find_running(Service& service, const Exchange& exchange, const std::string& id) {
  const auto found = service.background.find(id);
  if (found == service.background.end()) return nullptr;
  BackgroundResponse& response = *found->second;
  return response.exchange.record().key_owner == exchange.record().key_owner ? &response : nullptr;
}

asio::awaitable<void> responses(Service& service, Exchange& exchange) {
  ResponseRequest request = co_await read_request(service, exchange);
  const ReplyHead head = new_reply(service, "resp_", request.params);
  const Tokenizer& tokenizer = *service.model->tokenizer;
  std::vector<GenerationRequest> prompts;
  // `new_message` is empty: the answer begins a new message. `new_message` is a variable, because GCC 12
  // destroys temporaries in a co_await expression twice.
  const ChatPrompt new_message;
  std::optional<HttpError> failure;
  try {
    co_await tokenise(service, exchange, [&] {
      prompts.push_back(make_generation_request(service, request.params, prompt_of(service, request).tokens));
    });
    co_await constrain_chat(service, request.params, request.offered, new_message, prompts);
  } catch (const HttpError& error) {
    // In a stream, send this error as an event: agents expect it there, and then compact their conversation.
    if (!request.params.stream || error.code != "context_length_exceeded") throw;
    failure = error;
  }
  note_ignored(service, exchange, request.params.ignored);
  if (request.is_background && request.params.stream && !service.kept_answers.are_kept())
    throw InputError(
        "request.background must be false if stream is true, on this server: it keeps no events, because "
        "--resume-memory or --resume-time is 0");
  // Free the body, but keep its bytes reserved in the budget: answer and store hold parts of the request.
  exchange.free_body();
  if (request.is_background) {
    auto response = std::make_shared<BackgroundResponse>(head, tokenizer, std::move(request));
    co_await answer_in_background(service, exchange, std::move(response), std::move(prompts), failure);
    co_return;
  }
  ResponseAnswer answer(head, tokenizer, request);
  std::optional<std::string> rest;
  if (!failure) try {
      rest = co_await run(service, exchange, request, std::move(prompts), answer);
      if (!rest) co_return;
    } catch (const HttpError& error) {
      // If no event was sent yet, the caller answers with an ordinary error.
      if (exchange.status() == 0) throw;
      failure = error;
    }
  if (failure) {
    co_await exchange.write_events(answer.object().fail(*failure));
    co_await exchange.end_events(failure->status);
    co_return;
  }
  const Json& whole = answer.object().json();
  store(service, exchange.record().key_owner, head.id, request, whole);
  if (!request.params.stream) {
    co_await reply_json(exchange, 200, whole);
    co_return;
  }
  co_await exchange.write_events(std::move(*rest));
  co_await exchange.end_events(200);
}

asio::awaitable<void> response_input_tokens(Service& service, Exchange& exchange) {
  const ResponseRequest request = co_await read_request(service, exchange);
  note_ignored(service, exchange, request.params.ignored);
  size_t num_tokens = 0;
  co_await offload_if_long(service, exchange,
                           [&] { num_tokens = prompt_of(service, request).tokens.size(); });
  const Json told{{"object", "response.input_tokens"}, {"input_tokens", num_tokens}};
  co_await reply_json(exchange, 200, told);
}

}  // namespace nibble::server
