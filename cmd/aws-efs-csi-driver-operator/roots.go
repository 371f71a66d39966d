package main

// The operator's image contains no CA certificates. So the program itself contains CA certificates, and uses them only if the system has none.
import _ "golang.org/x/crypto/x509roots/fallback"
