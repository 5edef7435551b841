BEGIN TRANSACTION;
CREATE TABLE "_trident" (
        state TEXT NOT NULL PRIMARY KEY COLLATE NOCASE,
        topology TEXT NOT NULL, uuid TEXT NOT NULL, incarnation INTEGER NOT NULL,
        fence INTEGER NOT NULL, owner TEXT NOT NULL, columns TEXT NOT NULL,
        txid INTEGER, epoch INTEGER, attempt_id INTEGER, run_first INTEGER
    );
INSERT INTO "_trident" VALUES('words','golden-files','33089dbb-4b04-4e4a-b8ad-a6fe5db04ff9',1,2,'d8c13f8f362c473f9fa59a32cada81e5','word string, count bigint',3,2,0,3);
INSERT INTO "_trident" VALUES('lines','golden-files','33089dbb-4b04-4e4a-b8ad-a6fe5db04ff9',1,2,'5202f744c1c74523a5e39b4deaa622a9','count bigint',3,2,0,3);
CREATE TABLE "lines" ("count" INTEGER CHECK (typeof("count") IN ('integer', 'null')), "_key" TEXT NOT NULL PRIMARY KEY, "_txid" INTEGER NOT NULL, "_prev" INTEGER, "_born" INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "lines" VALUES(15,'[]',3,9,1);
CREATE TABLE "words" ("word" TEXT CHECK (typeof("word") IN ('text', 'null')), "count" INTEGER CHECK (typeof("count") IN ('integer', 'null')), "_key" TEXT NOT NULL PRIMARY KEY, "_txid" INTEGER NOT NULL, "_prev" INTEGER, "_born" INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "words" VALUES('00',3,'["00"]',3,2,1);
INSERT INTO "words" VALUES('01',3,'["01"]',3,2,1);
INSERT INTO "words" VALUES('02',3,'["02"]',3,2,1);
INSERT INTO "words" VALUES('03',3,'["03"]',3,2,1);
INSERT INTO "words" VALUES('04',2,'["04"]',3,1,2);
INSERT INTO "words" VALUES('05',1,'["05"]',3,NULL,3);
INSERT INTO "words" VALUES('a.log',4,'["a.log"]',1,NULL,1);
INSERT INTO "words" VALUES('b.log.gz',5,'["b.log.gz"]',2,NULL,2);
INSERT INTO "words" VALUES('c.log',6,'["c.log"]',3,NULL,3);
INSERT INTO "words" VALUES('line',15,'["line"]',3,9,1);
INSERT INTO "words" VALUES('of',15,'["of"]',3,9,1);
INSERT INTO "words" VALUES('says',15,'["says"]',3,9,1);
INSERT INTO "words" VALUES('wörd0',6,'["wörd0"]',3,4,1);
INSERT INTO "words" VALUES('wörd1',5,'["wörd1"]',3,3,1);
INSERT INTO "words" VALUES('wörd2',4,'["wörd2"]',3,2,1);
COMMIT;
