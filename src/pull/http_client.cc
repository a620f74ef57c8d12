#include "pull/http_client.h"

#include <curl/curl.h>
#include <strings.h>

#include <charconv>
#include <utility>

#include "base/check.h"
#include "base/version.h"

namespace ashlar::pull {
namespace {

constexpr long kConnectTimeoutS = 20;
constexpr long kStallS = 60;  // less than a byte a second for so long ends a transfer
constexpr long kMaxRedirects = 10;

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

HeaderList Headers(const std::vector<std::string>& lines) {
  HeaderList list;
  for (const std::string& line : lines) {
    curl_slist* const longer = curl_slist_append(list.get(), line.c_str());
    ASHLAR_CHECK(longer != nullptr, "no memory for a header");
    if (list == nullptr) list.reset(longer);  // else the same list, longer
  }
  return list;
}

// The value of a header line that has this name, without spaces around it.
std::optional<std::string_view> ValueOf(std::string_view line, std::string_view name) {
  if (line.size() <= name.size() || line[name.size()] != ':' ||
      strncasecmp(line.data(), name.data(), name.size()) != 0) {
    return std::nullopt;
  }
  line.remove_prefix(name.size() + 1);
  const std::size_t begin = line.find_first_not_of(" \t");
  const std::size_t end = line.find_last_not_of(" \t\r\n");
  if (begin == std::string_view::npos || end < begin) return "";
  return line.substr(begin, end - begin + 1);
}

std::optional<std::uint64_t> NumberOf(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

struct HttpClient::Transfer {
  CURL* curl;
  const Sink* sink;
  HttpAnswer answer;
  bool has_answered = false;
  bool is_ended_by_sink = false;

  // A line of the head of this answer, or of one that redirects here.
  static std::size_t OnHeader(char* bytes, std::size_t size, std::size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const std::string_view line(bytes, size * count);
    HttpAnswer& answer = transfer.answer;
    if (line.starts_with("HTTP/")) answer = {};
    transfer.has_answered = true;
    curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &answer.status);
    if (const auto tag = ValueOf(line, "ETag"); tag && !tag->starts_with("W/")) {
      answer.validator = *tag;
    }
    if (const auto date = ValueOf(line, "Last-Modified"); date && answer.validator.empty()) {
      answer.validator = *date;
    }
    if (const auto length = ValueOf(line, "Content-Length"); length && answer.status == 200) {
      answer.whole_bytes = NumberOf(*length);
    }
    if (const auto range = ValueOf(line, "Content-Range")) {
      if (const std::size_t slash = range->rfind('/'); slash != std::string_view::npos) {
        answer.whole_bytes = NumberOf(range->substr(slash + 1));
      }
    }
    return size * count;
  }

  static std::size_t OnBody(char* bytes, std::size_t size, std::size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const std::size_t total = size * count;
    if (transfer.answer.status != 200 && transfer.answer.status != 206) return total;
    if ((*transfer.sink)(transfer.answer, std::as_bytes(std::span(bytes, total)))) return total;
    transfer.is_ended_by_sink = true;
    return 0;
  }
};

struct HttpClient::Handle {
  Handle() {
    static const CURLcode kInitialised = curl_global_init(CURL_GLOBAL_DEFAULT);
    ASHLAR_CHECK(kInitialised == CURLE_OK, "libcurl cannot start: {}",
                 curl_easy_strerror(kInitialised));
    curl = curl_easy_init();
    ASHLAR_CHECK(curl != nullptr, "libcurl has no memory for a handle");
  }
  ~Handle() { curl_easy_cleanup(curl); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  CURL* curl;
};

HttpClient::HttpClient() : handle_(std::make_unique<Handle>()) {}
HttpClient::~HttpClient() = default;

Result<HttpAnswer> HttpClient::Stream(const HttpRequest& request, std::uint64_t from,
                                      const Sink& sink) {
  CURL* const curl = handle_->curl;
  curl_easy_reset(curl);  // connections stay open
  Transfer transfer{.curl = curl, .sink = &sink, .answer = {}};
  const HeaderList headers = Headers(request.headers);
  const std::string range = std::to_string(from) + "-";
  const std::string agent = std::string("ashlar/") + kVersion;
  char why[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, kMaxRedirects);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, agent.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectTimeoutS);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kStallS);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &Transfer::OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Transfer::OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  if (from > 0) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
  if (!request.bearer.empty()) {
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
    curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, request.bearer.c_str());
  }
  const CURLcode end = curl_easy_perform(curl);
  if (end != CURLE_OK && !transfer.has_answered) {
    return MakeError(ErrorCode::kUnavailable, "cannot reach {}: {}", request.url,
                     why[0] != '\0' ? why : curl_easy_strerror(end));
  }
  transfer.answer.is_complete = end == CURLE_OK;
  if (end != CURLE_OK && !transfer.is_ended_by_sink) {
    transfer.answer.failure = why[0] != '\0' ? why : curl_easy_strerror(end);
  }
  return std::move(transfer.answer);
}

Result<std::string> HttpClient::GetText(const HttpRequest& request, std::size_t max_bytes) {
  std::string text;
  bool is_too_long = false;
  ASHLAR_ASSIGN(const HttpAnswer answer,
                Stream(request, 0, [&](const HttpAnswer&, std::span<const std::byte> bytes) {
                  is_too_long = text.size() + bytes.size() > max_bytes;
                  if (is_too_long) return false;
                  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                  return true;
                }));
  if (is_too_long) {
    return MakeError(ErrorCode::kResourceExhausted, "{} answers with more than {} bytes",
                     request.url, max_bytes);
  }
  if (answer.status != 200) return AnswerError(request, answer);
  if (!answer.is_complete) {
    return MakeError(ErrorCode::kIo, "the answer of {} was cut: {}", request.url, answer.failure);
  }
  return text;
}

Error AnswerError(const HttpRequest& request, const HttpAnswer& answer) {
  switch (answer.status) {
    case 401:
    case 403:
      return MakeError(ErrorCode::kNotFound,
                       "{} answers {}: it does not exist, or needs a token that may read it",
                       request.url, answer.status);
    case 404:
    case 410:
      return MakeError(ErrorCode::kNotFound, "{} answers {}: there is no such thing", request.url,
                       answer.status);
    default:
      return MakeError(ErrorCode::kIo, "{} answers {}{}{}", request.url, answer.status,
                       answer.failure.empty() ? "" : ": ", answer.failure);
  }
}

std::string ResolveUrl(std::string_view base, std::string_view target) {
  const std::unique_ptr<CURLU, FreeUrl> url(curl_url());
  char* whole = nullptr;
  if (url == nullptr ||
      curl_url_set(url.get(), CURLUPART_URL, std::string(base).c_str(), 0) != CURLUE_OK ||
      curl_url_set(url.get(), CURLUPART_URL, std::string(target).c_str(), 0) != CURLUE_OK ||
      curl_url_get(url.get(), CURLUPART_URL, &whole, 0) != CURLUE_OK) {
    return "";
  }
  std::string resolved = whole;
  curl_free(whole);
  return resolved;
}

}  // namespace ashlar::pull
