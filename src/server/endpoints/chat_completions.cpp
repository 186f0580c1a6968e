// POST /v1/chat/completions
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "core/errors/error.h"
#include "core/text/json.h"
#include "core/text/remove_member.h"
#include "server/api/chat_request.h"
#include "server/endpoints/endpoints.h"
#include "server/service/constraint.h"
#include "server/service/prompt.h"
#include "server/service/resume.h"
#include "speculative/prediction.h"

namespace nibble::server {
namespace {

// Makes the engine's prediction from the client's text, as the content of a message on channel "final".
std::shared_ptr<const speculative::Prediction> make_prediction(const std::string& text,
                                                               const Tokenizer& tokenizer) {
  if (text.empty()) return nullptr;
  return std::make_shared<speculative::Prediction>(
      speculative::Prediction{tokenizer.encode("<|channel|>final<|message|>", SpecialTokens::kRecognise),
                              tokenizer.encode(text, SpecialTokens::kOrdinary)});
}

// Collects the answers of all choices and makes the events of a stream. The first event, which has only the
// role, is sent with the first token: clients time the first event as the time to first token.
class ChatChoices : public ChoiceListener {
 public:
  struct Asked {
    const ChatRequest& request;
    const ChatPrompt& prompt;
    std::shared_ptr<const speculative::Prediction> prediction;
  };
  ChatChoices(const ReplyHead& head, const Tokenizer& tokenizer, Asked asked, ChunkUsage& usage)
      : head_(head),
        tokenizer_(tokenizer),
        usage_(usage),
        is_stream_(asked.request.params.stream),
        with_logprobs_(asked.request.params.sample.num_logprobs >= 0),
        with_reasoning_(asked.request.includes_reasoning),
        uses_functions_(asked.request.uses_functions),
        with_ids_(asked.request.params.return_token_ids),
        is_resumable_(asked.request.is_resumable),
        prediction_(std::move(asked.prediction)) {
    const ChatRequest& request = asked.request;
    const ChatPrompt& prompt = asked.prompt;
    if (with_ids_) prompt_tokens_ = prompt.tokens;
    for (int i = 0; i < request.params.num_choices; ++i)
      choices_.push_back({ChatAnswer(tokenizer, request.offered, request.params.stop, prompt.begun,
                                     request.params.stream_interval)});
  }

  // For a resumable answer, sends an SSE comment immediately, so that the client gets the header, which has
  // the answer's id, before the first token.
  std::string on_queued() override { return is_resumable_ ? std::string(kSseKeepAlive) : ""; }
  std::string on_prompt(size_t choice, const PromptEvent& progress) override {
    if (choice > 0) return {};
    usage_.so_far.num_cached_tokens = progress.num_cached_tokens;
    Json chunk = chat_chunk(head_, choice, Json::object(), nullptr, std::nullopt);
    chunk["prompt_progress"] = to_json(progress);
    usage_.add_to(chunk);
    return sse_event(chunk);
  }
  std::string on_token(size_t choice, TokenEvent& event) override {
    Choice& one = choices_[choice];
    ++usage_.so_far.num_output_tokens;
    if (choice == 0) usage_.so_far.num_cached_tokens = event.num_cached_tokens;
    if (choice == 0 && !event.prompt.empty()) prompt_ = std::move(event.prompt);
    if (with_ids_ || prediction_) one.tokens.push_back(event.token.token);
    const std::vector<AnswerDelta> deltas = one.answer.push(event.token);
    usage_.so_far.num_reasoning_tokens = num_reasoning_tokens();
    return events(choice, deltas);
  }
  bool has_enough(size_t choice) const override { return choices_[choice].answer.has_stopped(); }
  std::string on_end(size_t choice, FinishReason reason, const std::string&) override {
    Choice& ended = choices_[choice];
    std::string last = events(choice, ended.answer.finish());
    if (ended.answer.has_stopped()) reason = FinishReason::kStopString;
    ended.finish_reason = finish_reason(reason, ended.answer.ends_in_call());
    if (uses_functions_ && ended.finish_reason == "tool_calls") ended.finish_reason = "function_call";
    if (is_stream_)
      last += event(choice, chat_chunk(head_, choice, Json::object(), nullptr, ended.finish_reason));
    return last;
  }

  Json to_list() const {
    Json list = Json::array();
    for (const Choice& choice : choices_) {
      const Json logprobs =
          with_logprobs_ ? chat_logprobs(choice.answer.content_tokens(), tokenizer_) : Json(nullptr);
      list.push_back(chat_choice(list.size(), choice.answer, choice.finish_reason, logprobs));
      if (uses_functions_) use_function_call(list.back()["message"]);
      if (with_ids_) list.back()["token_ids"] = choice.tokens;
      if (with_reasoning_) continue;
      for (const char* key : {"reasoning", "reasoning_content"}) remove_member(list.back()["message"], key);
    }
    return list;
  }
  void count_prediction(Usage& usage) const {
    for (const Choice& choice : choices_) {
      if (!prediction_) break;
      usage.num_prediction_tokens += static_cast<int>(prediction_->text.size());
      usage.num_accepted_tokens += speculative::num_predicted(*prediction_, choice.tokens);
    }
  }
  const std::vector<SampledToken>& prompt() const { return prompt_; }
  const std::vector<TokenId>& prompt_tokens() const { return prompt_tokens_; }
  int num_reasoning_tokens() const {
    return std::accumulate(choices_.begin(), choices_.end(), 0, [](int sum, const Choice& choice) {
      return sum + choice.answer.num_reasoning_tokens();
    });
  }

 private:
  struct Choice {
    ChatAnswer answer;
    std::string_view finish_reason{};
    bool has_begun{false};
    std::vector<TokenId> tokens{};
    size_t num_sent_ids{0};
  };

  std::string events(size_t choice, const std::vector<AnswerDelta>& deltas) {
    std::string out;
    if (!is_stream_) return out;
    if (!choices_[choice].has_begun) {
      Json first = chat_chunk(head_, choice, {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}},
                              nullptr, std::nullopt);
      if (with_ids_) first["prompt_token_ids"] = prompt_tokens_;
      out += event(choice, std::move(first));
    }
    choices_[choice].has_begun = true;
    for (const AnswerDelta& delta : deltas) {
      if (delta.kind == AnswerDelta::Kind::kReasoning && !with_reasoning_) continue;
      Json logprobs;
      if (with_logprobs_ && !delta.tokens.empty()) logprobs = chat_logprobs(delta.tokens, tokenizer_);
      Json told = to_json(delta);
      if (uses_functions_) use_function_call(told);
      out += event(choice, chat_chunk(head_, choice, told, logprobs, std::nullopt));
    }
    return out;
  }
  std::string event(size_t choice, Json chunk) {
    if (with_ids_) {  // add all ids not sent yet, because a token without text has no chunk of its own
      Choice& one = choices_[choice];
      chunk["choices"][0]["token_ids"] =
          std::vector(one.tokens.begin() + static_cast<ptrdiff_t>(one.num_sent_ids), one.tokens.end());
      one.num_sent_ids = one.tokens.size();
    }
    usage_.add_to(chunk);
    return sse_event(chunk);
  }

  const ReplyHead& head_;
  const Tokenizer& tokenizer_;
  ChunkUsage& usage_;
  bool is_stream_, with_logprobs_, with_reasoning_, uses_functions_, with_ids_, is_resumable_;
  std::shared_ptr<const speculative::Prediction> prediction_;  // null: the client sent none
  std::vector<TokenId> prompt_tokens_;
  std::vector<SampledToken> prompt_;  // the prompt's tokens with log-probabilities; empty unless requested
  std::vector<Choice> choices_;
};

// A chat request that is ready for the engine.
struct ReadyChat {
  ChatRequest request;
  ChatPrompt prompt;
  std::vector<GenerationRequest> prompts;
};

asio::awaitable<void> answer_chat(Service& service, Exchange& exchange, ReadyChat& ready) {
  const ChatRequest& request = ready.request;
  const GenerationParams& params = request.params;
  ChatPrompt& prompt = ready.prompt;
  std::vector<GenerationRequest> prompts = std::move(ready.prompts);
  ChunkUsage usage{.is_included = params.include_usage, .is_continuous = params.continuous_usage};
  prompt.tokens = prompts.front().prompt;  // make_generation_request() may have truncated it
  usage.so_far.num_prompt_tokens = static_cast<int>(prompt.tokens.size());

  const ReplyHead head = new_reply(service, "chatcmpl-", params);
  ChatChoices choices(head, *service.model->tokenizer, {request, prompt, prompts.front().prediction}, usage);
  const std::optional<TokenCounts> counts =
      co_await generate(service, exchange, std::move(prompts), params, choices);
  if (!counts) co_return;
  usage.so_far.num_output_tokens = counts->num_output;
  usage.so_far.num_cached_tokens = counts->num_cached;
  usage.so_far.num_reasoning_tokens = choices.num_reasoning_tokens();
  choices.count_prediction(usage.so_far);
  if (!params.stream) {
    Json reply = chat_reply(head, choices.to_list(), usage.so_far);
    if (params.return_token_ids) reply["prompt_token_ids"] = choices.prompt_tokens();
    if (params.prompt_logprobs >= 0)
      co_await offload_if(service, choices.prompt().size() > 512, [&] {
        reply["prompt_logprobs"] = prompt_logprobs(choices.prompt(), *service.model->tokenizer);
      });
    co_await reply_json(exchange, 200, reply);
    co_return;
  }
  co_await end_stream(exchange, params, usage_chunk(head, "chat.completion.chunk", usage.so_far));
}

}  // namespace

asio::awaitable<void> chat_completions(Service& service, Exchange& exchange) {
  const auto ready = std::make_shared<ReadyChat>();
  ChatRequest& request = ready->request;
  ChatPrompt& prompt = ready->prompt;
  std::vector<GenerationRequest>& prompts = ready->prompts;
  co_await tokenise(service, exchange, [&] {
    request = read_chat_request(exchange.body(), service.options.defaults);
    check_model(service, request.params);
    apply_options(service, request.params);
    if (!request.adds_generation_prompt && !request.continues_final)
      throw InputError("request.add_generation_prompt must be true unless continue_final_message is true");
    prompt = chat_prompt(service, request);
    prompts.push_back(make_generation_request(service, request.params, prompt.tokens));
    prompts.back().prediction = make_prediction(request.prediction, *service.model->tokenizer);
    prompts.back().reports_prompt = request.returns_progress;
    // Free the messages: they may hold megabytes of old reasoning that is not in the prompt.
    request.chat.messages.clear();
  });
  exchange.drop_body();
  co_await constrain_chat(service, request.params, request.offered, prompt, prompts);
  if (!service.kept_answers.are_kept()) request.is_resumable = false;
  note_ignored(service, exchange, request.params.ignored);
  if (!request.is_resumable) {
    co_await answer_chat(service, exchange, *ready);
    co_return;
  }
  // `answer` is a variable, because GCC 12 destroys temporaries in a co_await expression twice.
  std::function<asio::awaitable<void>(Exchange&)> answer = [&service, ready](Exchange& kept) {
    return answer_chat(service, kept, *ready);
  };
  co_await answer_resumably(service, exchange, std::move(answer));
}

}  // namespace nibble::server
