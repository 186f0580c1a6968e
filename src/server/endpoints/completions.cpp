// POST /v1/completions: continues texts. Clients apply the chat template, so control tokens are recognised.
#include <algorithm>
#include <numeric>
#include <utility>

#include "core/text/json.h"
#include "server/api/completion_request.h"
#include "server/api/stream_pace.h"
#include "server/endpoints/endpoints.h"
#include "server/http/http_error.h"
#include "server/service/constraint.h"
#include "server/service/engine_gate.h"
#include "server/service/prompt.h"
#include "text/utf8_stream.h"

namespace nibble::server {
namespace {

std::vector<TokenId> tokens_of(const Prompt& prompt, const Tokenizer& tokenizer) {
  if (const auto* text = std::get_if<std::string>(&prompt))
    return tokenizer.encode(*text, SpecialTokens::kRecognise);
  return std::get<std::vector<TokenId>>(prompt);
}

std::string text_of(const Prompt& prompt, const Tokenizer& tokenizer) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  Utf8Stream utf8;
  std::string text = utf8.push(tokenizer.decode(std::get<std::vector<TokenId>>(prompt)));
  return text += utf8.finish();
}

// Collects the completions of all choices and makes the chunks of a stream.
class CompletionChoices : public ChoiceListener {
 public:
  CompletionChoices(const ReplyHead& head, const Tokenizer& tokenizer, const CompletionRequest& request,
                    const std::vector<GenerationRequest>& prompts, ChunkUsage& usage)
      : head_(head),
        tokenizer_(tokenizer),
        usage_(usage),
        num_tried_(static_cast<size_t>(request.params.num_choices)),
        num_kept_(static_cast<size_t>(request.num_kept)),
        is_stream_(request.params.stream),
        with_logprobs_(request.params.sample.num_logprobs >= 0),
        with_ids_(request.params.return_token_ids),
        echoes_logprobs_(with_logprobs_ && request.echo),
        tells_prompt_(request.params.prompt_logprobs >= 0),
        generates_(request.params.max_tokens != 0) {
    for (size_t prompt = 0; prompt < request.prompts.size(); ++prompt) {
      std::string echo;
      if (request.echo)
        echo = text_of(request.params.truncate_prompt ? prompts[prompt].prompt : request.prompts[prompt],
                       tokenizer);
      for (size_t i = 0; i < num_tried_; ++i) {
        choices_.push_back({echo, StreamPace(request.params.stream_interval)});
        choices_.back().first_token = prompts[prompt].prompt.front();
      }
      if (with_ids_) prompt_tokens_.push_back(prompts[prompt].prompt);
    }
  }

  std::string on_token(size_t choice, TokenEvent& event) override {
    Choice& one = choices_[choice];
    if (++one.num_tokens == 1 && choice % num_tried_ == 0)
      usage_.so_far.num_cached_tokens += event.num_cached_tokens;
    if (!event.prompt.empty()) one.prompt = std::move(event.prompt);
    if (!generates_) return "";
    ++usage_.so_far.num_output_tokens;
    one.unsent_text += event.text;
    one.sum_logprobs += double{event.token.logprob};
    if (with_ids_) one.unsent_ids.push_back(event.token.token);
    // An echo with log-probabilities lists all tokens, because clients count them. Other lists skip special
    // tokens.
    if (with_logprobs_ && (echoes_logprobs_ || !tokenizer_.is_special(event.token.token)))
      one.unsent_tokens.push_back(std::move(event.token));
    // A token without text (part of a character, a control token) gets a chunk only if all chunks have usage.
    const bool has_news = !one.unsent_text.empty() || usage_.is_continuous;
    one.pace.add_token();
    return is_stream_ && has_news && one.pace.is_due() ? chunk(choice, std::nullopt) : "";
  }
  bool has_enough(size_t) const override { return false; }  // the engine checks stop strings
  std::string on_end(size_t choice, FinishReason reason, const std::string& text) override {
    Choice& one = choices_[choice];
    one.unsent_text += generates_ ? text : "";
    one.finish_reason = generates_ ? finish_reason(reason, false) : "length";
    return is_stream_ ? chunk(choice, one.finish_reason) : "";
  }

  Json to_list() {
    Json list = Json::array();
    for (size_t first = 0; first < choices_.size(); first += num_tried_)
      for (const size_t choice : best_of(first)) {
        list.push_back(take_unsent(choice, choices_[choice].finish_reason));
        list.back()["index"] = list.size() - 1;
      }
    return list;
  }

 private:
  struct Choice {
    std::string unsent_text;
    StreamPace pace;
    std::vector<SampledToken> unsent_tokens{};
    std::vector<TokenId> unsent_ids{};
    TokenId first_token{};
    std::vector<SampledToken> prompt{};  // the prompt from its second token on
    int64_t num_sent_characters{0};
    int num_tokens{0};
    double sum_logprobs{0};
    bool has_sent{false};
    std::string_view finish_reason{};
  };

  // Returns the choices to keep, the highest mean log-probability of their tokens first, as in OpenAI's API.
  std::vector<size_t> best_of(size_t first) const {
    std::vector<size_t> order(num_tried_);
    std::iota(order.begin(), order.end(), first);
    if (num_kept_ == num_tried_) return order;
    const auto mean = [&](size_t choice) {
      return choices_[choice].sum_logprobs / std::max(1, choices_[choice].num_tokens);
    };
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return mean(a) > mean(b); });
    order.resize(num_kept_);
    return order;
  }

  Json take_unsent(size_t choice, std::optional<std::string_view> reason) {
    Choice& one = choices_[choice];
    Json logprobs;
    const bool with_echo = echoes_logprobs_ && !one.has_sent;
    if (with_logprobs_ && (!is_stream_ || !one.unsent_tokens.empty() || with_echo)) {
      CompletionLogprobs lists(tokenizer_, one.num_sent_characters);
      if (with_echo) {
        lists.add_first(one.first_token);
        lists.add(one.prompt);
      }
      lists.add(one.unsent_tokens);
      logprobs = lists.take();
    }
    Json json = completion_choice(choice, one.unsent_text, logprobs, reason);
    if (tells_prompt_) json["prompt_logprobs"] = prompt_logprobs(one.prompt, tokenizer_);
    if (with_ids_) {
      if (!one.has_sent) json["prompt_token_ids"] = prompt_tokens_[choice / num_tried_];
      json["token_ids"] = std::exchange(one.unsent_ids, {});
    }
    one.has_sent = true;
    one.pace.count_event();
    one.num_sent_characters += count_characters(one.unsent_text);
    one.unsent_text.clear();
    one.unsent_tokens.clear();
    return json;
  }
  std::string chunk(size_t choice, std::optional<std::string_view> reason) {
    Json json = completion_reply(head_, Json::array({take_unsent(choice, reason)}));
    usage_.add_to(json);
    return sse_event(json);
  }

  const ReplyHead& head_;
  const Tokenizer& tokenizer_;
  ChunkUsage& usage_;
  size_t num_tried_, num_kept_;
  bool is_stream_, with_logprobs_, with_ids_, echoes_logprobs_, tells_prompt_, generates_;
  std::vector<std::vector<TokenId>> prompt_tokens_;
  std::vector<Choice> choices_;
};

// Returns the number of log-probabilities that the answer lists for prompts, alternatives included. Throws
// HttpError if this number is too large: each log-probability takes about 100 bytes. Streams have a lower
// limit: the I/O thread prints their chunks and serves no other request meanwhile. An answer in one piece is
// printed by a worker thread.
size_t count_prompt_rows(const CompletionRequest& request, const std::vector<GenerationRequest>& prompts) {
  const size_t most = request.params.stream ? 1 << 14 : 1 << 19;
  size_t num_rows = 0;
  for (const GenerationRequest& prompt : prompts)
    num_rows += prompt.prompt.size() * static_cast<size_t>(prompt.prompt_logprobs + 1);
  num_rows *= static_cast<size_t>(request.params.num_choices);
  if (num_rows <= most) return num_rows;
  HttpError error(400,
                  "the log-probabilities of the prompts would take {} rows, but at most {} are accepted: "
                  "send fewer prompts at once, or request fewer alternatives per token",
                  num_rows, most);
  error.param = "logprobs";
  throw error;
}

// Throws HttpError if echoed prompts exceed `max_bytes`: a small request could echo many MB.
void check_echo(const CompletionRequest& request, const Tokenizer& tokenizer, uint64_t max_bytes) {
  if (!request.echo) return;
  uint64_t num_bytes = 0;
  for (const Prompt& prompt : request.prompts)
    num_bytes += text_of(prompt, tokenizer).size() * static_cast<uint64_t>(request.params.num_choices);
  if (num_bytes <= max_bytes) return;
  HttpError error(400,
                  "echo: the choices would repeat {} bytes of prompts, but at most {} are accepted: request "
                  "fewer choices",
                  num_bytes, max_bytes);
  error.param = "echo";
  throw error;
}

}  // namespace

asio::awaitable<void> completions(Service& service, Exchange& exchange) {
  const Tokenizer& tokenizer = *service.model->tokenizer;
  CompletionRequest request;
  ChunkUsage usage;
  size_t num_prompt_rows = 0;
  std::vector<GenerationRequest> prompts;
  co_await tokenise(service, exchange, [&] {
    request = read_completion_request(exchange.body(), service.options.defaults);
    check_model(service, request.params);
    apply_options(service, request.params);
    // Check the count before thousands of prompts are tokenised.
    service.gate->check_count(request.prompts.size() * static_cast<size_t>(request.params.num_choices));
    for (const Prompt& prompt : request.prompts) {
      prompts.push_back(make_generation_request(service, request.params, tokens_of(prompt, tokenizer)));
      GenerationRequest& made = prompts.back();
      made.stop.strings = request.params.stop.strings;
      // Choices are selected by log-probabilities, so the engine must report them.
      if (request.num_kept < request.params.num_choices)
        made.sample.num_logprobs = std::max(0, made.sample.num_logprobs);
      if (request.echo && request.params.sample.num_logprobs >= 0)
        made.prompt_logprobs = std::max(made.prompt_logprobs, request.params.sample.num_logprobs);
      usage.so_far.num_prompt_tokens += static_cast<int>(made.prompt.size());
    }
    // Check only now: text_of() needs valid tokens, and the loop above has checked the tokens.
    check_echo(request, tokenizer, service.options.limits.max_body_bytes);
    num_prompt_rows = count_prompt_rows(request, prompts);
  });
  exchange.drop_body();
  co_await constrain_text(service, request.params, prompts);
  note_ignored(service, exchange, request.params.ignored);
  const GenerationParams& params = request.params;
  usage.is_included = params.include_usage;
  usage.is_continuous = params.continuous_usage;

  const ReplyHead head = new_reply(service, "cmpl-", params);
  CompletionChoices choices(head, tokenizer, request, prompts, usage);
  const std::optional<TokenCounts> counts =
      co_await generate(service, exchange, std::move(prompts), params, choices);
  if (!counts) co_return;
  usage.so_far.num_output_tokens = params.max_tokens == 0 ? 0 : counts->num_output;
  usage.so_far.num_cached_tokens = counts->num_cached;
  if (!params.stream) {
    std::string answer;
    constexpr size_t kFewRows{1 << 12};  // printing this number of rows takes a few milliseconds
    co_await offload_if(service, num_prompt_rows > kFewRows, [&] {
      Json reply = completion_reply(head, choices.to_list());
      reply["usage"] = to_json(usage.so_far);
      answer = print(reply) + "\n";
    });
    co_await exchange.reply(200, kJsonType, std::move(answer));
    co_return;
  }
  co_await end_stream(exchange, params, usage_chunk(head, "text_completion", usage.so_far));
}

}  // namespace nibble::server
