#include "admission/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <boost/asio/buffer.hpp>

#include "base/files.h"

namespace lucid {
namespace {

Error Refuse(const std::string& file, std::string_view what) {
  ERR_clear_error();  // per thread, and read by the next call of OpenSSL otherwise
  return InvalidInput(fmt::format("{}: {}", file, what));
}

constexpr std::size_t kLongest = 1 << 20;  // bytes of a file

// The certificates of `pem` as those that may have signed a client's. False: there are none, or not
// only such.
bool AcceptClientsOf(SSL_CTX* context, const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> in(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free);
  int count = 0;
  while (X509* const read = PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr)) {
    const std::unique_ptr<X509, decltype(&X509_free)> one(read, &X509_free);
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), one.get()) != 1 ||
        SSL_CTX_add_client_CA(context, one.get()) != 1) {
      return false;
    }
    ++count;
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  return at_end && count > 0;
}

}  // namespace

Result<ServerTls> LoadTls(const std::string& certificate, const std::string& key,
                          const std::string& client_ca) {
  namespace ssl = boost::asio::ssl;
  ServerTls tls;
  LUCID_ASSIGN(tls.certificate, ReadTextFile(certificate, kLongest));
  LUCID_ASSIGN(tls.key, ReadTextFile(key, kLongest));
  struct stat info {};
  if (::stat(key.c_str(), &info) == 0 && (info.st_mode & 07) != 0) {
    return Refuse(key, fmt::format("has mode {:04o}: everybody on this machine may read the "
                                   "private key or change it: chmod o= {}",
                                   info.st_mode & 07777, key));
  }
  auto& context = *(tls.context = std::make_shared<ssl::context>(ssl::context::tls_server));
  SSL_CTX* native = context.native_handle();
  SSL_CTX_set_options(
      native, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_COMPRESSION);
  if (SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_cipher_list(native, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1) {
    return InternalError("this OpenSSL has no TLS 1.2 with ECDHE and AES-GCM");
  }
  // Without one, a key with a passphrase would ask for it on the terminal.
  SSL_CTX_set_default_passwd_cb(native, [](char*, int, int, void*) { return 0; });
  boost::system::error_code error;
  context.use_certificate_chain(boost::asio::buffer(tls.certificate), error);
  if (error) return Refuse(certificate, "not a readable certificate chain in PEM");
  context.use_private_key(boost::asio::buffer(tls.key), ssl::context::pem, error);
  if (error) {
    return Refuse(key,
                  "not a readable private key in PEM without a passphrase, or not "
                  "that of the certificate");
  }
  if (SSL_CTX_check_private_key(native) != 1) return Refuse(key, "not the certificate's key");
  if (client_ca.empty()) return tls;
  LUCID_ASSIGN(tls.client_ca, ReadTextFile(client_ca, kLongest));
  if (!AcceptClientsOf(native, tls.client_ca)) {
    return Refuse(client_ca, "holds no certificates in PEM");
  }
  SSL_CTX_set_verify(native, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // A resumed session would pass with a certificate that was good then.
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(native, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(native, 0);
  return tls;
}

}  // namespace lucid
