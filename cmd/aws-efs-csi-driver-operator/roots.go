package main

// The operator's image contains no CA certificates, so the program embeds them. It prefers those of the system, if there are any.
import _ "golang.org/x/crypto/x509roots/fallback"
