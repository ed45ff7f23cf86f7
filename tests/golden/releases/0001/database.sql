BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE api_keys (
	id VARCHAR NOT NULL, 
	org_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	prefix VARCHAR NOT NULL, 
	hash VARCHAR NOT NULL, 
	created_at DATETIME NOT NULL, 
	last_used_at DATETIME, 
	revoked_at DATETIME, 
	PRIMARY KEY (id), 
	FOREIGN KEY(org_id) REFERENCES organisations (id), 
	UNIQUE (hash)
);
INSERT INTO "api_keys" VALUES('6de88522-df7b-453b-b15c-2d14c45afb38','3e0cdcd7-7cfb-461b-bcd8-4a2ba2eac91f','first key','osb_a1a1a1a1','5088496010e902b58bab359648691b61a92b5d5fe8dae4f7b0419d54627b7f7a','2026-11-30 16:13:59.635621','2026-11-30 16:14:01.398285',NULL);
INSERT INTO "api_keys" VALUES('dd0312aa-ee8e-4f6a-8a44-756e44403420','ce5a2ca5-4d65-4c6b-995e-58c58235392f','first key','osb_9d65fe67','d52727acef791118416706ebc4fb11ae24f48fc9e8c5b9a4af0aa7058afe954a','2026-11-30 16:13:59.818597','2026-11-30 16:14:02.987040',NULL);
INSERT INTO "api_keys" VALUES('d4d5c084-7678-4f77-b0ff-ce7f85edc5d2','3e0cdcd7-7cfb-461b-bcd8-4a2ba2eac91f','ci','osb_b96ca752','d5f0bfabfe61bbce9ff9bf759ee3d1812b40fd985b5774ef1e1e6ea3e6b7a2ba','2026-11-30 16:14:01.500102',NULL,NULL);
INSERT INTO "api_keys" VALUES('894fc2c7-2ba3-4abc-a11d-d3f2cc60079d','3e0cdcd7-7cfb-461b-bcd8-4a2ba2eac91f','revoked','osb_fac46236','2823c76d36a6fe88e3095545185ce925ba4c007cc20cdbea9baf9637cc94e44e','2026-11-30 16:14:01.596568',NULL,'2026-11-30 16:14:01.622961');
CREATE TABLE machines (
	id VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	template_hash VARCHAR NOT NULL, 
	image_version VARCHAR NOT NULL, 
	guest_token VARCHAR NOT NULL, 
	created_at DATETIME NOT NULL, 
	record JSON, 
	sandbox_id VARCHAR, 
	PRIMARY KEY (id)
);
INSERT INTO "machines" VALUES('mc6489bd51bf91b3','claimed','h1','fake-1-da24eb63037d','e66eb7f2d4f472044d433cb22e063714260c790f8b7e550eaefb074766d1a565','2026-11-30 16:14:01.806240','{"driver": "fake", "machine_id": "mc6489bd51bf91b3", "state": {"pid": 4194305, "start_ticks": 6376691, "port": 40855}}','sb-55e2520b');
INSERT INTO "machines" VALUES('mc5fe8c4f19543c3','claimed','h1','fake-1-da24eb63037d','181fd55176c907c6b81e1af605d5a91c406c5ebebe94252ad04f0a1efcd3d5d4','2026-11-30 16:14:01.963327','{"driver": "fake", "machine_id": "mc5fe8c4f19543c3", "state": {"pid": 4194305, "start_ticks": 6376707, "port": 43799}}','sb-a26ec8fe');
INSERT INTO "machines" VALUES('me05d70cf5e03965','claimed','h1','fake-1-da24eb63037d','c5c6fc46563202c8d2de53eba224da59c5b4273f8377b4632871c221e9fe369d','2026-11-30 16:14:02.404969','{"driver": "fake", "machine_id": "me05d70cf5e03965", "state": {"pid": 4194305, "start_ticks": 6376752, "port": 44343}}','sb-d544e349');
INSERT INTO "machines" VALUES('mda7625811d937f3','ready','h1','fake-1-da24eb63037d','0a3323fa7e24f54b1a40a7a3316613245b15406c5d3acd04d43b369c6ff90b2e','2026-11-30 16:14:03.179200','{"driver": "fake", "machine_id": "mda7625811d937f3", "state": {"pid": 4194305, "start_ticks": 6376830, "port": 37945}}',NULL);
CREATE TABLE organisations (
	id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	created_at DATETIME NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "organisations" VALUES('3e0cdcd7-7cfb-461b-bcd8-4a2ba2eac91f','default','2026-11-30 16:13:59.619660');
INSERT INTO "organisations" VALUES('ce5a2ca5-4d65-4c6b-995e-58c58235392f','another','2026-11-30 16:13:59.816928');
CREATE TABLE sandboxes (
	id VARCHAR NOT NULL, 
	org_id VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	template VARCHAR NOT NULL, 
	template_hash VARCHAR NOT NULL, 
	memory_mb INTEGER NOT NULL, 
	cpu_count INTEGER NOT NULL, 
	disk_mb INTEGER NOT NULL, 
	timeout_seconds INTEGER NOT NULL, 
	environment JSON NOT NULL, 
	metadata JSON NOT NULL, 
	alias VARCHAR, 
	network_enabled BOOLEAN NOT NULL, 
	machine_id VARCHAR, 
	created_at DATETIME NOT NULL, 
	started_at DATETIME, 
	stopped_at DATETIME, 
	stop_reason VARCHAR, 
	idempotency_key VARCHAR, 
	request_hash VARCHAR, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_sandboxes_idempotency UNIQUE (org_id, idempotency_key), 
	FOREIGN KEY(org_id) REFERENCES organisations (id)
);
INSERT INTO "sandboxes" VALUES('sb-55e2520b','3e0cdcd7-7cfb-461b-bcd8-4a2ba2eac91f','running','base','h1',4096,1,20480,3600,'{"A": "1"}','{"team": "red"}','worker',1,'mc6489bd51bf91b3','2026-11-30 16:14:01.692067','2026-11-30 16:14:01.968468',NULL,NULL,NULL,'671bf276f99a1556da000e47b8251ff7e03396aa471eb999163a738cddad12e6');
INSERT INTO "sandboxes" VALUES('sb-fec5d072','3e0cdcd7-7cfb-461b-bcd8-4a2ba2eac91f','stopped','base','h1',4096,1,20480,0,'{}','{}',NULL,0,NULL,'2026-11-30 16:14:01.984089','2026-11-30 16:14:02.245544','2026-11-30 16:14:02.267040','user_requested',NULL,'923de91bcd2da2ec022336951391433e28c6c3d38580f4b6d034122aa7c7056c');
INSERT INTO "sandboxes" VALUES('sb-a26ec8fe','3e0cdcd7-7cfb-461b-bcd8-4a2ba2eac91f','running','base','h1',4096,1,20480,0,'{}','{}','once',1,'mc5fe8c4f19543c3','2026-11-30 16:14:02.315385','2026-11-30 16:14:02.515045',NULL,NULL,'key-1','28cae5b9db64ac885c707427050b78a925cf45bbda63526a4e84db5a620b32a4');
INSERT INTO "sandboxes" VALUES('sb-d544e349','ce5a2ca5-4d65-4c6b-995e-58c58235392f','running','base','h1',4096,1,20480,0,'{}','{"of": "another"}',NULL,1,'me05d70cf5e03965','2026-11-30 16:14:03.005923','2026-11-30 16:14:03.206331',NULL,NULL,NULL,'27b6f1f05b24c1ff25b7ad9edf11c216f60a11d95dc6071ceff20506eb8c2de5');
CREATE INDEX ix_api_keys_org_id ON api_keys (org_id);
CREATE INDEX ix_sandboxes_state ON sandboxes (state);
CREATE INDEX ix_sandboxes_org_newest ON sandboxes (org_id, created_at, id);
COMMIT;
