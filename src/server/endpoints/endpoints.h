// Endpoints that have files of their own. Paths are in server/routes.cpp.
#pragma once

#include "server/service/service.h"

namespace nibble::server {

asio::awaitable<void> chat_completions(Service& service, Exchange& exchange);
asio::awaitable<void> completions(Service& service, Exchange& exchange);
asio::awaitable<void> responses(Service& service, Exchange& exchange);
asio::awaitable<void> response_input_tokens(Service& service, Exchange& exchange);
asio::awaitable<void> get_response(Service& service, Exchange& exchange);
asio::awaitable<void> delete_response(Service& service, Exchange& exchange);
asio::awaitable<void> cancel_response(Service& service, Exchange& exchange);
asio::awaitable<void> response_input_items(Service& service, Exchange& exchange);
asio::awaitable<void> get_answer(Service& service, Exchange& exchange);
asio::awaitable<void> delete_answer(Service& service, Exchange& exchange);
asio::awaitable<void> messages(Service& service, Exchange& exchange);
asio::awaitable<void> count_message_tokens(Service& service, Exchange& exchange);
asio::awaitable<void> ollama_chat(Service& service, Exchange& exchange);
asio::awaitable<void> ollama_generate(Service& service, Exchange& exchange);
asio::awaitable<void> ollama_tags(Service& service, Exchange& exchange);
asio::awaitable<void> ollama_ps(Service& service, Exchange& exchange);
asio::awaitable<void> ollama_show(Service& service, Exchange& exchange);
asio::awaitable<void> ollama_version(Service& service, Exchange& exchange);
asio::awaitable<void> models(Service& service, Exchange& exchange);
asio::awaitable<void> model(Service& service, Exchange& exchange);
asio::awaitable<void> apply_template(Service& service, Exchange& exchange);
asio::awaitable<void> tokenize(Service& service, Exchange& exchange);
asio::awaitable<void> detokenize(Service& service, Exchange& exchange);
asio::awaitable<void> tokenizer_info(Service& service, Exchange& exchange);
asio::awaitable<void> front_page(Service& service, Exchange& exchange);
asio::awaitable<void> conversation_page(Service& service, Exchange& exchange);
asio::awaitable<void> status_page(Service& service, Exchange& exchange);
asio::awaitable<void> page_file(Service& service, Exchange& exchange);
asio::awaitable<void> props(Service& service, Exchange& exchange);
asio::awaitable<void> load(Service& service, Exchange& exchange);
asio::awaitable<void> status(Service& service, Exchange& exchange);

}  // namespace nibble::server
