// The address of a server with OpenAI's API.
#pragma once

#include <string>

namespace nibble::cli {

struct Endpoint {
  std::string host, port;
  std::string base;     // prefix of all paths: "/v1"
  std::string api_key;  // empty: no key is sent

  std::string url() const;  // "http://127.0.0.1:8080/v1"
};
// Accepts "http://127.0.0.1:8080" with or without the "/v1" that official clients require. Throws InputError.
Endpoint read_endpoint(const std::string& url);

}  // namespace nibble::cli
