"""Templates from OCI images: fetched by skopeo, unpacked by umoci, and made fit for machines."""
