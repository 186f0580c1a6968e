#include "server/service/prompt.h"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

#include "harmony/control_tokens.h"
#include "harmony/render.h"

namespace nibble::server {
namespace {

[[noreturn]] void refuse(HttpError error, const char* param) {
  error.param = param;
  throw error;
}

void check_vocabulary(const ServedModel& model, const std::vector<TokenId>& tokens, const char* param) {
  for (const TokenId token : tokens)
    if (token >= model.vocab)
      refuse(HttpError(400, "{} has token {}, which is not in the vocabulary (ids 0 to {})", param, token,
                       model.vocab - 1),
             param);
}

// Tokenises each word twice: as at the start of an answer, and after a space.
std::vector<std::vector<TokenId>> runs_of(const std::vector<std::string>& words, const Tokenizer& tokenizer) {
  std::vector<std::vector<TokenId>> runs;
  for (const std::string& word : words)
    for (const char* before : {"", " "}) {
      std::vector<TokenId> run = tokenizer.encode(before + word, SpecialTokens::kOrdinary);
      if (std::ranges::find(runs, run) == runs.end()) runs.push_back(std::move(run));
    }
  return runs;
}

// Cuts the prompt, at its start or end, to truncate_prompt tokens. With -1, leaves room for an answer.
void truncate(std::vector<TokenId>& prompt, const GenerationParams& params, int max_context) {
  if (!params.truncate_prompt) return;
  const int room = std::max(1, max_context - std::max(1, params.max_tokens.value_or(1)));
  const auto most = static_cast<size_t>(*params.truncate_prompt < 0 ? room : *params.truncate_prompt);
  if (prompt.size() <= most) return;
  const auto surplus = static_cast<ptrdiff_t>(prompt.size() - most);
  if (params.truncates_end)
    prompt.resize(most);
  else
    prompt.erase(prompt.begin(), prompt.begin() + surplus);
}

bool gives_instructions(const harmony::ChatMessage& message) {
  return message.role == harmony::Role::kSystem || message.role == harmony::Role::kDeveloper;
}

}  // namespace

ContextLengthError::ContextLengthError(size_t tokens, int context)
    : HttpError(400,
                "This model's maximum context length is {} tokens. However, you requested a prompt of {} "
                "tokens, which leaves no room for an answer. Shorten it.",
                context, tokens),
      num_tokens(tokens),
      max_context(context) {
  param = "prompt";
  code = "context_length_exceeded";
}

ChatPrompt chat_prompt(const Service& service, const ChatRequest& request) {
  const Tokenizer& tokenizer = *service.model->tokenizer;
  harmony::Chat chat = request.chat;
  if (chat.instructions.empty() && std::ranges::none_of(chat.messages, gives_instructions))
    chat.instructions = service.options.defaults.instructions;
  chat.date = service.options.date.value_or(harmony::today());
  chat.response_format = request.params.format.told;
  harmony::RenderOptions options;
  options.generation_prompt = request.adds_generation_prompt;
  if (!request.continues_final) {
    harmony::Rendered whole = harmony::render(harmony::to_conversation(chat), tokenizer, options);
    return {std::move(whole.text), std::move(whole.tokens), {}, {}};
  }
  // Render the last message separately: its turn is unfinished, so its reasoning must stay in the prompt.
  const harmony::ChatMessage last = std::move(chat.messages.back());
  chat.messages.pop_back();
  harmony::Conversation before = harmony::to_conversation(chat);
  const size_t num_before = before.messages.size();
  chat.messages.push_back(last);
  harmony::Conversation open = harmony::to_conversation(chat);
  open.messages.erase(open.messages.begin(), open.messages.begin() + static_cast<ptrdiff_t>(num_before));
  harmony::Rendered whole = harmony::render(before, tokenizer, options);
  harmony::Rendered end = harmony::render(
      open, tokenizer, {.drop_analysis = harmony::DropAnalysis::kNone, .generation_prompt = false});
  end.tokens.pop_back();  // drops <|end|>
  end.text = tokenizer.decode(end.tokens);
  whole.text += end.text;
  whole.tokens.insert(whole.tokens.end(), end.tokens.begin(), end.tokens.end());
  const std::string header = "<|channel|>" + open.messages.back().channel.value_or("final") + "<|message|>";
  const TokenId message = tokenizer.encode("<|message|>", SpecialTokens::kRecognise).front();
  const auto text = std::find(end.tokens.rbegin(), end.tokens.rend(), message).base();
  return {std::move(whole.text), std::move(whole.tokens), tokenizer.encode(header, SpecialTokens::kRecognise),
          std::vector(text, end.tokens.end())};
}

namespace {

using harmony::ChatMessage;
using harmony::Role;

// Returns the indices where a chat may be cut: after each message, but not between a call and its results.
std::vector<size_t> ends_of_parts(const std::vector<ChatMessage>& messages) {
  std::vector<size_t> ends;
  for (size_t i = 0; i < messages.size();) {
    const bool has_calls = !messages[i].tool_calls.empty();
    for (++i; has_calls && i < messages.size() && messages[i].role == Role::kTool;) ++i;
    if (i < messages.size() && messages[i].role != Role::kTool) ends.push_back(i);
  }
  return ends;
}

// Drops the messages before `end`, except instructions.
ChatRequest without_beginning(const ChatRequest& request, size_t end) {
  ChatRequest shorter = request;
  std::vector<ChatMessage>& messages = shorter.chat.messages;
  const auto rest = std::remove_if(messages.begin(), messages.begin() + static_cast<ptrdiff_t>(end),
                                   [](const ChatMessage& message) { return !gives_instructions(message); });
  messages.erase(rest, messages.begin() + static_cast<ptrdiff_t>(end));
  return shorter;
}

}  // namespace

// Finds the number of messages to drop by binary search, because rendering a long chat is slow.
ChatPrompt shortened_prompt(const Service& service, const ChatRequest& request) {
  const int max_context = service.model->max_context;
  const int answer = std::min(std::max(1, request.params.max_tokens.value_or(1024)), max_context / 2);
  ChatPrompt best = chat_prompt(service, request);
  const auto fits = [&](const ChatPrompt& prompt) {
    return std::ssize(prompt.tokens) + answer <= max_context;
  };
  if (fits(best)) return best;
  const std::vector<size_t> ends = ends_of_parts(request.chat.messages);
  for (size_t low = 0, high = ends.size(); low < high;) {
    const size_t middle = low + (high - low) / 2;
    ChatPrompt shorter = chat_prompt(service, without_beginning(request, ends[middle]));
    const bool is_enough = fits(shorter);
    (is_enough ? high : low) = is_enough ? middle : middle + 1;
    if (is_enough || shorter.tokens.size() < best.tokens.size()) best = std::move(shorter);
  }
  return best;
}

GenerationRequest make_generation_request(const Service& service, const GenerationParams& params,
                                          std::vector<TokenId> prompt) {
  const ServedModel& model = *service.model;
  if (prompt.empty()) refuse(HttpError(400, "prompt is empty: it needs at least one token"), "prompt");
  truncate(prompt, params, model.max_context);
  if (prompt.size() >= static_cast<size_t>(model.max_context))
    throw ContextLengthError(prompt.size(), model.max_context);
  check_vocabulary(model, prompt, "prompt");
  check_vocabulary(model, params.stop.tokens, "stop_token_ids");
  if (params.allowed_tokens) check_vocabulary(model, *params.allowed_tokens, "allowed_token_ids");
  for (const auto& [token, bias] : params.sample.logit_bias) check_vocabulary(model, {token}, "logit_bias");
  if (params.max_tokens && params.stop.min_tokens > *params.max_tokens)
    refuse(HttpError(400, "min_tokens is {}: it must be at most max_tokens, which is {}",
                     params.stop.min_tokens, *params.max_tokens),
           "min_tokens");

  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.sample = params.sample;
  if (!params.has_seed) {
    std::random_device device;
    request.sample.seed = uint64_t{device()} << 32 | device();
  }
  request.stop = params.stop;
  request.stop.strings.clear();
  // The engine produces at least one token. With max_tokens 0, the endpoint drops that token.
  if (params.max_tokens) request.stop.max_tokens = std::max(1, *params.max_tokens);
  request.prompt_logprobs = params.prompt_logprobs;
  request.priority = params.priority;
  request.cache_salt = params.cache_salt;
  request.adapter = find_model(service, params).adapter;
  if (!params.ignore_eos)
    request.stop.tokens.insert(request.stop.tokens.end(), model.stop_tokens.begin(), model.stop_tokens.end());
  if (params.allowed_tokens)
    request.bans.allowed = std::make_shared<const std::vector<TokenId>>(*params.allowed_tokens);
  request.bans.runs = runs_of(params.bad_words, *model.tokenizer);
  return request;
}

}  // namespace nibble::server
